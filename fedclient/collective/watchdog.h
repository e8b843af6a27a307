// Ends the whole job when a rank makes no progress for too long.
//
// A rank that died or was stopped leaves the others waiting in a collective, by default for ever.
// Each rank therefore has a watchdog thread. Work marks progress once per step; without a mark for
// `limit_s` the watchdog says which rank on which host stood at which step, aborts the job through
// the collective, and behind that leaves by _exit(Code::rank_lost) within ten seconds, since an
// abort can hang as well.
//
// Time is counted in ticks while this process runs, so that a job that the scheduler suspends and
// resumes is not taken for a stalled one. It counts only between watch() and rest(): waiting for
// the server is no stall.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "fedclient/collective/collective.h"

namespace fedqueue {

class Watchdog {
 public:
  // The collective must outlive the watchdog. A limit of 0 disables it.
  Watchdog(Collective& collective, double limit_s);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Starts counting; `doing` is used in the message ("training segment 3").
  void watch(const std::string& doing);
  // One more step is done.
  void mark(std::int64_t step);
  // Stops counting.
  void rest();

  // What to do on rank 0 before the job is ended, as naming the last snapshot; runs on the
  // watchdog's thread and must not wait for anything.
  void on_expiry(std::function<void()> action);

 private:
  void run();
  void expire();

  Collective& collective_;
  const double limit_s_;
  std::atomic<std::int64_t> marks_{0};
  std::atomic<std::int64_t> step_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool watching_ = false;
  bool ending_ = false;
  std::string doing_;
  std::function<void()> on_expiry_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace fedqueue
