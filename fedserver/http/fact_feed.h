// The facts as an event stream for watchers.
//
// Promises: a watcher sees every fact it may see once and in order. Memory does not grow with the
// number of watchers or with how slow they are: the newest facts are kept once for all, and a
// watcher that fell behind them is served from the journal. Tokens and nonces, which are secrets
// between a job and the server, never leave.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fedserver/driver/driver.h"

namespace fedqueue::http {

struct FeedEvent {
  std::int64_t sequence = 0;
  std::string kind;
  std::string text;                 // JSON, one line
  std::optional<FacilityId> owner;  // the facility it is about
  bool everybody = false;           // a fact of the round that every facility may see
};

[[nodiscard]] FeedEvent make_feed_event(const JournalRow& row, const Fact& fact);
[[nodiscard]] bool may_see(const FeedEvent& event, const std::optional<FacilityId>& viewer);
// As it goes over the wire: "id: 7\nevent: published\ndata: {...}\n\n".
[[nodiscard]] std::string event_text(const FeedEvent& event);

class FactFeed : public Observer {
 public:
  static constexpr std::size_t kept_max = 1024;

  void on_fact(const JournalRow& row, const Fact& fact, const Engine& engine) override;
  void on_replayed(const JournalRow& row, const Fact& fact) override;

  [[nodiscard]] std::int64_t newest() const;
  // The kept events after this sequence, at most `limit`; nothing when some of them are no longer
  // kept and the journal must be read.
  [[nodiscard]] std::optional<std::vector<std::shared_ptr<const FeedEvent>>> after(
      std::int64_t sequence, std::size_t limit) const;

  // Calls wake(true) as soon as there is something after this sequence, or wake(false) at the
  // deadline; once.
  void wait(std::int64_t sequence, std::chrono::steady_clock::time_point deadline,
            std::function<void(bool)> wake);
  // Wakes those whose deadline has passed.
  void expire(std::chrono::steady_clock::time_point now);
  [[nodiscard]] std::size_t watchers() const;

 private:
  struct Waiter {
    std::chrono::steady_clock::time_point deadline;
    std::function<void(bool)> wake;
  };
  void keep(const JournalRow& row, const Fact& fact);

  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<const FeedEvent>> kept_;  // guarded by mutex_
  std::int64_t newest_ = 0;                            // guarded by mutex_
  std::vector<Waiter> waiters_;                        // guarded by mutex_
};

}  // namespace fedqueue::http
