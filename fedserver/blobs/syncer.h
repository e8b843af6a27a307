// One helper thread that makes files durable while their next bytes are still being received, so
// that the wait at the end of an upload is short.
//
// Promises: jobs run one at a time, in the order in which they were given; the destructor runs what
// is queued and then ends the thread. Thread-safe.
//
// A simulated disk has no speed to gain: at_once runs each job within post() and makes no thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace fedqueue {

enum class Syncing { behind, at_once };

class Syncer {
 public:
  explicit Syncer(Syncing syncing = Syncing::behind);
  ~Syncer();
  Syncer(const Syncer&) = delete;
  Syncer& operator=(const Syncer&) = delete;

  void post(std::function<void()> job);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<std::function<void()>> jobs_;  // guarded by mutex_
  bool ending_ = false;                     // guarded by mutex_
  std::thread thread_;
};

}  // namespace fedqueue
