// Does what the engine asks of the disk, on threads of its own: reductions, the `latest` link, the
// removal of files, and the screening of updates.
//
// The state of a server optimiser lies beside the model of its version: state-NNNN.safetensors. A
// state that is not of the version a reduction starts from (the optimiser was off for a while) is
// left alone, and a new one begins.
//
// Promises: actions are done one at a time, in the order in which they were given, and each may be
// done again after a restart with the same result; every StartReduce ends in one ReduceFinished or
// ReduceFailed; a screening that fails is the update's fault, never the server's.
//
// Thread-safe. The destructor finishes the action at hand and drops the rest, which a restarted
// server finds again.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "aggregation/reduce/reduce.h"
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
  // `complete` hands a completion to the driver, which takes it at once.
  Worker(BlobStore& blobs, WorkerOptions options, std::function<void(Event)> complete, Log log);

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
  [[nodiscard]] ReduceRequest request_of(const StartReduce& action) const;
  // The reduced files of these names, written as NAME.new, get their names.
  Status publish(const std::vector<std::string>& files) const;

  BlobStore& blobs_;
  WorkerOptions options_;
  std::function<void(Event)> complete_;
  Log log_;
  std::mutex model_mutex_;
  std::shared_ptr<const tensor::Manifest> model_;  // guarded by model_mutex_
  Pool actions_;
  Pool screenings_;
};

}  // namespace fedqueue
