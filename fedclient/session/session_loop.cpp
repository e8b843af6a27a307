#include "fedclient/session/session_loop.h"

#include <condition_variable>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>

#include "core/base/prng.h"
#include "fedclient/session/snapshot.h"

namespace fedqueue {
namespace {

// How soon a signal is noticed while nothing else happens.
constexpr auto watch_interval = std::chrono::milliseconds(100);

class Loop {
 public:
  Loop(Session& session, SessionServer& server, SessionServer& heartbeats, LocalTrainer& trainer,
       const SessionLoopSettings& settings, const Log& log)
      : session_(session),
        server_(server),
        heartbeats_(heartbeats),
        trainer_(trainer),
        settings_(settings),
        log_(log),
        random_(std::random_device{}()) {}

  int run() {
    std::thread beside([this] { watch(); });
    while (step() != Session::Step::over) perform();
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    beside.join();
    if (session_.error()) {
      log_.error(*session_.error(), {{"updates", session_.updates_accepted()}});
    } else {
      log_.info("job over", {{"reason", session_.reason()},
                             {"updates", session_.updates_accepted()},
                             {"rejected", session_.updates_rejected()}});
    }
    return session_.exit_code();
  }

 private:
  Session::Step step() {
    std::lock_guard lock(mutex_);
    return session_.step();
  }

  void perform() {
    switch (step()) {
      case Session::Step::enrol:
        return enrol();
      case Session::Step::fetch:
        return fetch();
      case Session::Step::train:
        return train();
      case Session::Step::upload:
        return upload();
      case Session::Step::ask:
        return ask();
      case Session::Step::wait:
        return wait();
      case Session::Step::report:
        return report();
      case Session::Step::over:
        return;
    }
  }

  void failed(const Error& error) {
    std::lock_guard lock(mutex_);
    session_.failed(error, steady_instant(), random_.uniform());
    if (session_.step() == Session::Step::wait) {
      log_.warning("will try again",
                   {{"cause", error.message},
                    {"code", code_name(error.code)},
                    {"wait_s", to_seconds(session_.wake_at() - steady_instant())}});
    }
  }

  void enrol() {
    Result<JobAnswer> answer = server_.enrol(session_.settings().registration);
    if (!answer) return failed(answer.error());
    log_.info("registered", {{"next", to_text(answer->next.kind)},
                             {"base", answer->next.segment.base},
                             {"steps", answer->next.segment.local_steps}});
    std::lock_guard lock(mutex_);
    session_.enrolled(std::move(*answer), steady_instant());
    changed_.notify_all();
  }

  void fetch() {
    const std::filesystem::path path = settings_.job_directory / "model.safetensors";
    std::error_code ignored;
    std::filesystem::create_directories(settings_.job_directory, ignored);
    const Version base = session_.segment().base;
    Result<DownloadedModel> model = server_.download_model(base, path);
    if (!model) return failed(model.error());
    log_.info("model fetched", {{"version", model->version}, {"bytes", model->bytes}});
    const Status loaded = trainer_.load(path, base, session_.job());
    std::filesystem::remove(path, ignored);  // a job's folder is kept, the model is not
    if (!loaded) {
      // Not the server's fault: it must not be tried again.
      std::lock_guard lock(mutex_);
      session_.fetched(steady_instant());
      if (session_.step() == Session::Step::train) {
        session_.failed(loaded.error(), steady_instant(), 0);
      }
      return;
    }
    std::lock_guard lock(mutex_);
    session_.fetched(steady_instant());
  }

  void train() {
    Snapshot snapshot = prepared_snapshot();
    Result<std::filesystem::path> file = snapshot_file(settings_.job_directory, snapshot.id);
    if (!file) return failed(file.error());
    control_.until = std::chrono::steady_clock::time_point::max();
    if (const std::optional<Instant> until = session_.train_until()) {
      control_.until = std::chrono::steady_clock::time_point(until->time_since_epoch());
    }
    Result<UpdateMetadata> trained = trainer_.train(session_.segment(), control_, *file);
    if (!trained) return failed(trained.error());
    {
      std::lock_guard lock(mutex_);
      session_.trained(*trained, steady_instant());
      if (session_.step() != Session::Step::upload) return;
      snapshot.update = *file;
      snapshot.metadata = session_.metadata();
    }
    // Without the note the update can still be sent from here; only the agent cannot help.
    if (Status noted = write_snapshot_note(snapshot); !noted) {
      log_.warning("no note beside the snapshot", {{"cause", noted.error().message}});
    }
    snapshot_ = snapshot;
  }

  Snapshot prepared_snapshot() {
    std::lock_guard lock(mutex_);
    Snapshot snapshot;
    snapshot.id = session_.update_id();
    snapshot.token = session_.token();
    snapshot.controls = trainer_.controls();
    return snapshot;
  }

  void upload() {
    RetryPolicy retry;
    {
      std::lock_guard lock(mutex_);
      retry = session_.upload_retry(steady_instant());
    }
    Result<UpdateAnswer> answer = server_.upload_update(snapshot_.id, snapshot_.update,
                                                        snapshot_.metadata, snapshot_.token, retry);
    if (!answer) return failed(answer.error());
    log_.info("update answered", {{"update", snapshot_.id},
                                  {"disposition", to_text(answer->disposition)},
                                  {"reason", answer->reason},
                                  {"steps", snapshot_.metadata.steps_run},
                                  {"next", to_text(answer->next.kind)}});
    settle_snapshot(snapshot_, answer->disposition);
    std::lock_guard lock(mutex_);
    session_.uploaded(*answer, steady_instant());
  }

  void ask() {
    Result<UpdateAnswer> answer = server_.ask_next(session_.update_id());
    if (!answer) return failed(answer.error());
    if (answer->next.kind != Next::Kind::wait) {
      log_.info("next", {{"update", answer->id},
                         {"next", to_text(answer->next.kind)},
                         {"base", answer->next.segment.base},
                         {"steps", answer->next.segment.local_steps}});
    }
    std::lock_guard lock(mutex_);
    session_.asked(*answer, steady_instant());
  }

  void wait() {
    std::unique_lock lock(mutex_);
    while (session_.step() == Session::Step::wait && steady_instant() < session_.wake_at()) {
      changed_.wait_for(lock, session_.wake_at() - steady_instant());
    }
    session_.waited(steady_instant());
  }

  void report() {
    JobEnd end;
    {
      std::lock_guard lock(mutex_);
      end = session_.end();
    }
    Status told = server_.end_job(session_.settings().registration.attempt, end);
    if (!told) log_.warning("the end was not reported", {{"cause", told.error().message}});
    std::lock_guard lock(mutex_);
    session_.reported();
  }

  // The second thread: heartbeats and signals.
  void watch() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      changed_.wait_for(lock, watch_interval);
      if (over_) return;
      if (std::string reason = settings_.interrupted(); !reason.empty() && !session_.finishing()) {
        log_.info("finishing", {{"reason", reason}});
        session_.interrupt(reason, steady_instant());
        changed_.notify_all();
      }
      const std::optional<Instant> due = session_.heartbeat_due();
      if (due && steady_instant() >= *due) beat(lock);
      if (session_.finishing()) control_.stop = true;
    }
  }

  void beat(std::unique_lock<std::mutex>& lock) {
    const Heartbeat heartbeat = session_.heartbeat(control_.steps_done);
    const AttemptId attempt = session_.settings().registration.attempt;
    lock.unlock();
    Result<HeartbeatAnswer> answer = heartbeats_.heartbeat(attempt, heartbeat);
    lock.lock();
    if (heartbeat.token != session_.token()) return;  // registered again meanwhile
    if (answer) {
      session_.heartbeat_answered(*answer, steady_instant());
    } else {
      log_.warning("heartbeat failed", {{"cause", answer.error().message}});
      session_.heartbeat_failed(answer.error(), steady_instant());
    }
    if (session_.finishing()) changed_.notify_all();
  }

  Session& session_;
  SessionServer& server_;
  SessionServer& heartbeats_;
  LocalTrainer& trainer_;
  const SessionLoopSettings& settings_;
  const Log& log_;
  Prng random_;
  TrainControl control_;
  Snapshot snapshot_;
  std::mutex mutex_;  // guards session_ and over_
  std::condition_variable changed_;
  bool over_ = false;
};

}  // namespace

Instant steady_instant() {
  return Instant(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

int run_session(Session& session, SessionServer& server, SessionServer& heartbeats,
                LocalTrainer& trainer, const SessionLoopSettings& settings, const Log& log) {
  return Loop(session, server, heartbeats, trainer, settings, log).run();
}

}  // namespace fedqueue
