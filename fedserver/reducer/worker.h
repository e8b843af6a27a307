// Does what the engine asks of the disk, on threads of its own: reductions, the `latest` link, the
// removal of files, and the screening of updates.
//
// Promises: actions are done one at a time, in the order in which they were given, and each may be
// done again after a restart with the same result; every StartReduce ends in one ReduceFinished or
// ReduceFailed; a screening that fails is the update's fault, never the server's.
//
// Thread-safe. The destructor finishes the action at hand and drops the rest, which a restarted
// server finds again.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/log.h"
#include "core/tensor/manifest.h"
#include "fedserver/blobs/blobs.h"
#include "fedserver/driver/driver.h"

namespace fedqueue {

struct WorkerOptions {
  int reduce_threads = 0;  // 0: as many as there are processors
  int screen_threads = 2;
  double norm_max = 0;  // of an update; 0: none
};

class Worker : public Effects {
 public:
  // `post` hands a completion to the driver; it returns false while the driver's queue is full.
  Worker(BlobStore& blobs, WorkerOptions options, std::function<bool(Event)> post, Log log);
  ~Worker() override;

  void perform(const Action& action) override;

  // What the screening compares updates with: the run's model.
  void set_model(tensor::Manifest model);

  // Screens the update in `path` on a worker thread; the callback gets its norm or what is wrong.
  using Screened = std::function<void(Result<double>)>;
  void screen(const std::filesystem::path& path, Screened done);

 private:
  // Threads that take jobs from one queue.
  class Pool {
   public:
    explicit Pool(int threads);
    ~Pool();
    void post(std::function<void()> job);

   private:
    void work();
    std::mutex mutex_;
    std::condition_variable given_;
    std::deque<std::function<void()>> jobs_;
    bool ending_ = false;
    std::vector<std::thread> threads_;
  };

  void run(const StartReduce& action);
  void run(const LinkLatest& action);
  void run(const RemoveUpdate& action);
  void run(const RemoveModel& action);
  void run(const RemoveState& action);
  void report(const Status& status) const;
  void deliver(Event event);

  BlobStore& blobs_;
  WorkerOptions options_;
  std::function<bool(Event)> post_;
  Log log_;
  std::mutex model_mutex_;
  std::shared_ptr<const tensor::Manifest> model_;  // guarded by model_mutex_
  std::atomic<bool> ending_{false};
  Pool actions_;
  Pool screenings_;
};

}  // namespace fedqueue
