// Sums that a thread of their own carries out one after the other, while the caller computes. Those
// that are left when the caller has nothing else to do, it carries out itself: a small model's only
// sum wakes nobody.
//
// An MPI library moves data only while some thread is inside one of its calls, so that sums that
// are merely started would wait for the caller to come back. Internal to this folder.
//
// Thread safety: begin(), finish() and seconds() by one thread at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "core/base/result.h"
#include "fedclient/collective/collective.h"

namespace fedqueue {

class SumQueue {
 public:
  // Sums one range, on one thread at a time. `awaited` becomes true when the caller has nothing
  // left to do but wait: only then may the sum keep a core busy without need.
  using Sum =
      std::function<Status(float* data, std::size_t count, const std::atomic<bool>& awaited)>;

  explicit SumQueue(Sum sum);
  // Waits for the sum at hand and drops those behind it.
  ~SumQueue();
  SumQueue(const SumQueue&) = delete;
  SumQueue& operator=(const SumQueue&) = delete;

  void begin(float* data, std::size_t count);
  // Waits until all are done. The first error; those behind it were not attempted, and nothing is
  // attempted any more.
  Status finish();
  [[nodiscard]] SumSeconds seconds() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Range {
    float* data;
    std::size_t count;
  };
  void run();
  void work(std::unique_lock<std::mutex>& lock);

  const Sum sum_;
  std::atomic<bool> awaited_{false};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Range> ranges_;
  bool at_work_ = false;  // at the first of them
  bool ending_ = false;
  std::optional<Error> failed_;
  Clock::time_point busy_since_;
  SumSeconds seconds_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace fedqueue
