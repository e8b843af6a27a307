#include "fedserver/reducer/worker.h"

#include <algorithm>
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

Worker::Worker(BlobStore& blobs, WorkerOptions options, std::function<void(Event)> complete,
               Log log)
    : blobs_(blobs),
      options_(options),
      complete_(std::move(complete)),
      log_(std::move(log)),
      actions_(1),
      screenings_(options.screen_threads) {}

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

ReduceRequest Worker::request_of(const StartReduce& action) const {
  const Version version = action.plan.input_version + 1;
  ReduceRequest request;
  request.current = blobs_.model_path(action.current.file);
  request.rebuild_models = action.plan.rebuild_models;
  request.buffers =
      action.plan.unweighted_buffers ? BufferRule::unweighted_truncated : BufferRule::weighted;
  request.keep = action.plan.keep;
  request.step = action.plan.step;
  request.control_weight = action.plan.control_weight;
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
  request.output = blobs_.model_path(BlobStore::model_file(version) + ".new");
  if (!request.step.has_state()) return request;
  request.state_output = blobs_.model_path(BlobStore::state_file(version) + ".new");
  if (action.plan.state && action.plan.state->version == action.plan.input_version) {
    request.state_input = blobs_.model_path(action.plan.state->file);
  }
  return request;
}

Status Worker::publish(const std::vector<std::string>& files) const {
  for (const std::string& file : files) {
    std::error_code renamed;
    std::filesystem::rename(blobs_.model_path(file + ".new"), blobs_.model_path(file), renamed);
    if (renamed) return storage_error("rename '" + file + ".new'", renamed.value());
  }
  return sync_directory(blobs_.models());
}

void Worker::run(const StartReduce& action) {
  const Version version = action.plan.input_version + 1;
  const auto fail = [&](Error why) {
    why = within("publish version " + std::to_string(version), std::move(why));
    log_.error(why);
    complete_(ReduceFailed{version, std::move(why)});
  };
  const ReduceRequest request = request_of(action);
  const auto started = std::chrono::steady_clock::now();
  const Result<ReduceResult> result = reduce(request);
  if (!result) return fail(result.error());
  // The same inputs make the same bytes, so doing this twice changes nothing.
  ReduceFinished finished;
  finished.model = {version, BlobStore::model_file(version), result->sha256, result->bytes};
  finished.step_norm = result->step_norm;
  std::vector<std::string> files = {finished.model.file};
  if (result->state) {
    finished.state = ServerState{version, BlobStore::state_file(version), result->state->sha256,
                                 result->state->bytes};
    files.push_back(finished.state->file);
    if (result->state->began && action.plan.state) {
      log_.warning("the server optimiser begins anew",
                   {{"version", version},
                    {"optimizer", server_optimizer_name(request.step.optimizer)},
                    {"left_alone", action.plan.state->file}});
    }
  }
  if (Status published = publish(files); !published) return fail(published.error());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  log_.info("model reduced", {{"version", version},
                              {"updates", request.updates.size()},
                              {"bytes", result->bytes},
                              {"seconds", seconds.count()}});
  complete_(std::move(finished));
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
