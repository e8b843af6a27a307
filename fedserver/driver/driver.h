// The loop around the engine: take events, step, journal the facts, then reply and act.
//
// Promises: a reply leaves only after the facts it rests on are durable; a failed commit ends the
// process, since a restart from the journal is a tested path and carrying on is not; after a
// restart the facts are replayed and the actions still owed are done (again).
//
// Thread safety: post() from any thread; everything else on the one thread (or strand, or
// simulator) that owns the driver.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "fedserver/engine/engine.h"
#include "fedserver/engine/events.h"

namespace fedqueue {

// --- ports
// -----------------------------------------------------------------------------------------

struct JournalRow {
  std::int64_t sequence = 0;  // from 1, without holes
  Instant at{};
  std::string kind;
  std::string text;  // JSON
};

class Journal {
 public:
  virtual ~Journal() = default;
  // Rows with a sequence above `after`, in order, at most `limit`.
  virtual Result<std::vector<JournalRow>> rows(std::int64_t after, std::size_t limit) = 0;
  // All rows in one transaction, durable on return.
  virtual Status append(std::span<const JournalRow> rows) = 0;
  // Uptime reached, so that time never goes back after a restart. Durable now and then is enough.
  virtual Result<Instant> uptime() = 0;
  virtual Status note_uptime(Instant now) = 0;
};

class Effects {
 public:
  virtual ~Effects() = default;
  // Starts the action; must not block for long. Completions come back through Driver::complete().
  virtual void perform(const Action& action) = 0;
};

// Sees every fact after it is durable: logs, metrics, event streams. Must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_fact(const JournalRow& row, const Fact& fact, const Engine& engine) = 0;
  // Sees every fact of earlier lives of the server while it starts.
  virtual void on_replayed(const JournalRow& /*row*/, const Fact& /*fact*/) {}
};

// --- the driver
// ------------------------------------------------------------------------------------

using Reply = std::function<void(Answer)>;

class Driver {
 public:
  static constexpr std::size_t queue_max = 4096;

  // Replays the journal; opens the run with `initial` when the journal is empty. `wake` is called
  // (from any thread) whenever a turn is due. At most `queue_limit` posted events wait for one.
  static Result<std::unique_ptr<Driver>> create(EngineConfig config, ModelRecord initial,
                                                Journal& journal, Effects& effects,
                                                std::vector<Observer*> observers,
                                                std::function<void()> wake,
                                                std::size_t queue_limit = queue_max);

  // Queues an event; the reply may be empty. False when the queue is full: tell the peer to come
  // back (503), nothing was taken.
  [[nodiscard]] bool post(Event event, Reply reply = {});

  // Queues the completion of an action. It is taken even when the queue is full: every action ends
  // in at most one, so that they are bounded by what the engine asked for.
  void complete(Event event);

  // Takes what is queued (and a Tick), at most one transaction. Ends the process if the journal
  // cannot be written.
  void turn(Instant now);

  // When a turn is due although nothing was posted.
  [[nodiscard]] std::optional<Instant> next_wakeup() const { return engine_->next_wakeup(); }
  [[nodiscard]] bool has_work() const { return queued() > 0; }
  // Events that wait for a turn.
  [[nodiscard]] std::size_t queued() const;
  // Uptime at which the journal ended; the clock goes on from here.
  [[nodiscard]] Instant resumed_at() const { return resumed_at_; }
  [[nodiscard]] const Engine& engine() const { return *engine_; }

  // Does what a restarted server owes. Call once, after create(), when completions can be posted.
  void resume(Instant now);

 private:
  struct Queued {
    Event event;
    Reply reply;
  };

  Driver(std::unique_ptr<Engine> engine, Journal& journal, Effects& effects,
         std::vector<Observer*> observers, std::function<void()> wake, std::size_t queue_limit);
  Status replay();
  void commit(const std::vector<Fact>& facts, Instant now);

  std::unique_ptr<Engine> engine_;
  Journal& journal_;
  Effects& effects_;
  std::vector<Observer*> observers_;
  std::function<void()> wake_;
  std::size_t queue_limit_;
  std::int64_t sequence_ = 0;
  Instant resumed_at_{};
  Instant uptime_noted_{};

  mutable std::mutex mutex_;
  std::deque<Queued> queue_;  // guarded by mutex_
};

}  // namespace fedqueue
