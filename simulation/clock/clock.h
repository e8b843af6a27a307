// Virtual time: an ordered list of what is going to happen. Nothing here waits; an hour of a
// simulated federation takes as long as its events take to compute.
//
// Promises: events happen in the order of their time and, at the same time, of their scheduling;
// time never goes back; the trace has seen every event, so that equal hashes mean equal stories.
//
// Not thread-safe: one simulated world is one object on one thread; distinct worlds may run on
// distinct threads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "core/base/time.h"
#include "simulation/clock/trace.h"

namespace fedqueue::simulation {

class Clock {
 public:
  // Names a scheduled event; never used twice. 0 names none.
  using Ticket = std::uint64_t;

  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] Trace& trace() { return trace_; }

  // `what` must be a string literal: it goes into the trace and is told in stories. A time in the
  // past means now, after everything that is due now already.
  Ticket schedule(Instant at, const char* what, std::function<void()> action);
  Ticket after(Duration delay, const char* what, std::function<void()> action) {
    return schedule(now_ + delay, what, std::move(action));
  }
  // Nothing happens if the event is over already, or was never there.
  void cancel(Ticket ticket);

  [[nodiscard]] bool empty() const { return events_.empty(); }
  [[nodiscard]] std::optional<Instant> next_at() const;

  // The next event. False if there is none.
  bool step();
  // All events up to and including `end`, at which time then stands.
  void run_until(Instant end);
  // Until `done` holds after an event, nothing is left to happen, or the next event is later than
  // `end`. True if `done` holds.
  bool run_while_not(const std::function<bool()>& done, Instant end);

  // How many events have happened.
  [[nodiscard]] std::uint64_t events() const { return happened_; }

  // Writes one line of the story: into the trace always, to the listener if there is one.
  void tell(const std::string& who, const std::string& text, const std::string& detail = "") {
    trace_.tell(now_, who, text, detail);
  }

 private:
  struct Event {
    const char* what;
    std::function<void()> action;
  };
  using Key = std::pair<Instant, Ticket>;

  Instant now_{};
  Ticket last_ticket_ = 0;
  std::uint64_t happened_ = 0;
  std::map<Key, Event> events_;
  std::map<Ticket, Instant> when_;
  Trace trace_;
};

}  // namespace fedqueue::simulation
