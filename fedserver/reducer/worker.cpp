#include "fedserver/reducer/worker.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "aggregation/reduce/reduce.h"
#include "aggregation/reduce/screen.h"
#include "core/base/file.h"

namespace fedqueue {

Worker::Pool::Pool(int threads) {
  for (int i = 0; i < std::max(1, threads); ++i) threads_.emplace_back([this] { work(); });
}

Worker::Pool::~Pool() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    jobs_.clear();
  }
  given_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Worker::Pool::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return;
    jobs_.push_back(std::move(job));
  }
  given_.notify_one();
}

void Worker::Pool::work() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      given_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
      if (ending_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

Worker::Worker(BlobStore& blobs, WorkerOptions options, std::function<bool(Event)> post, Log log)
    : blobs_(blobs),
      options_(options),
      post_(std::move(post)),
      log_(std::move(log)),
      actions_(1),
      screenings_(options.screen_threads) {}

Worker::~Worker() { ending_ = true; }

void Worker::set_model(tensor::Manifest model) {
  const std::lock_guard lock(model_mutex_);
  model_ = std::make_shared<const tensor::Manifest>(std::move(model));
}

void Worker::perform(const Action& action) {
  actions_.post([this, action] { std::visit([this](const auto& value) { run(value); }, action); });
}

void Worker::screen(const std::filesystem::path& path, Screened done) {
  screenings_.post([this, path, done = std::move(done)] {
    std::shared_ptr<const tensor::Manifest> model;
    {
      const std::lock_guard lock(model_mutex_);
      model = model_;
    }
    FEDQUEUE_ASSERT(model != nullptr);
    const Result<ScreenReport> report = screen_update(path, *model, {options_.norm_max});
    if (report) {
      done(report->norm);
    } else {
      done(report.error());
    }
  });
}

// The queue of the driver is bounded; a completion must get through all the same.
void Worker::deliver(Event event) {
  while (!ending_ && !post_(event)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void Worker::run(const StartReduce& action) {
  const Version version = action.plan.input_version + 1;
  const auto fail = [&](Error why) {
    why = within("publish version " + std::to_string(version), std::move(why));
    log_.error(why);
    deliver(ReduceFailed{version, std::move(why)});
  };
  ReduceRequest request;
  request.current = blobs_.model_path(action.current.file);
  request.rebuild_models = action.plan.rebuild_models;
  request.buffers =
      action.plan.unweighted_buffers ? BufferRule::unweighted_truncated : BufferRule::weighted;
  request.threads = options_.reduce_threads;
  request.metadata["fedqueue.version"] = std::to_string(version);
  for (const ReduceInput& input : action.plan.updates) {
    ReduceUpdate update;
    update.update = blobs_.update_path(input.id);
    update.weight = input.weight;
    if (action.plan.rebuild_models) {
      update.base = blobs_.model_path(action.bases.at(input.base).file);
    }
    request.updates.push_back(std::move(update));
  }
  const std::string file = BlobStore::model_file(version);
  request.output = blobs_.model_path(file + ".new");
  const auto started = std::chrono::steady_clock::now();
  const Result<ReduceResult> result = reduce(request);
  if (!result) return fail(result.error());
  // The same inputs make the same bytes, so doing this twice changes nothing.
  std::error_code renamed;
  std::filesystem::rename(request.output, blobs_.model_path(file), renamed);
  if (renamed) return fail(storage_error("rename the model '" + file + "'", renamed.value()));
  if (Status synced = sync_directory(blobs_.models()); !synced) return fail(synced.error());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  log_.info("model reduced", {{"version", version},
                              {"updates", request.updates.size()},
                              {"bytes", result->bytes},
                              {"seconds", seconds.count()}});
  deliver(ReduceFinished{{version, file, result->sha256, result->bytes}, result->step_norm});
}

void Worker::run(const LinkLatest& action) { report(blobs_.link_latest(action.model.file)); }
void Worker::run(const RemoveUpdate& action) { report(blobs_.remove_update(action.id)); }
void Worker::run(const RemoveModel& action) { report(blobs_.remove_model(action.model.file)); }
void Worker::run(const RemoveState& action) { report(blobs_.remove_model(action.state.file)); }

// What is left undone here costs space, never a result: the next start sweeps.
void Worker::report(const Status& status) const {
  if (!status) log_.error(status.error());
}

}  // namespace fedqueue
