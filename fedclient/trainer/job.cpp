#include "fedclient/trainer/job.h"

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <random>
#include <string_view>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "fedclient/session/snapshot.h"

namespace fedqueue {
namespace {

using Clock = std::chrono::steady_clock;
// Leftovers are worth a little of the allocation, not all of it.
constexpr auto kLeftoverPatience = std::chrono::seconds(60);

std::string make_nonce() {
  std::random_device random;
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x%08x%08x", random(), random(), random(),
                random());
  return text.data();
}

// The session's trainer: segments run on all ranks, snapshots on the way.
class SegmentTrainer final : public LocalTrainer {
 public:
  SegmentTrainer(Trainer& trainer, const JobOptions& options, const Log& log)
      : trainer_(trainer), options_(options), log_(log) {}

  Status load(const std::filesystem::path& model, Version version, const JobAnswer& job) override {
    version_ = version;
    token_ = job.token;
    Result<TrainingSettings> settings = training_settings(job.training, options_.training);
    if (!settings) return settings.error();
    settings->seed = seed_for_attempt(settings->seed, options_.facility, options_.record.attempt);
    if (Status configured = trainer_.configure(*settings); !configured) return configured;
    if (Status loaded = trainer_.load(model, options_.controls_directory); !loaded) return loaded;
    if (!resumed_) resume();
    return {};
  }

  // Lets the facility's next job go on here. Another job of the facility that writes at this very
  // moment goes first.
  void keep_state() {
    if (options_.training_state.empty() || !changed_) return;
    kept_at_ = Clock::now();
    const Result<LockFile> lock = LockFile::acquire(options_.training_state.string() + ".lock",
                                                    options_.record.attempt.str());
    const Status kept = lock ? trainer_.keep(options_.training_state) : Status(lock.error());
    if (!kept) return log_.warning("training state not kept", {{"cause", kept.error().message}});
    changed_ = false;
  }

  std::filesystem::path controls() const override {
    return trainer_.has_controls() ? options_.controls_directory : std::filesystem::path();
  }

  Result<UpdateMetadata> train(const Segment& segment, TrainControl& control,
                               const std::filesystem::path& update) override {
    if (!overhead_s_) overhead_s_ = seconds_since_job_start();
    const SegmentOrder order{version_, segment.local_steps, segment.learning_rate, {}};
    Clock::time_point asked_at = Clock::now();
    Clock::duration longest_step{};
    const auto stop = [&](std::int64_t steps_done) {
      const Clock::time_point now = Clock::now();
      if (steps_done > 0) longest_step = std::max(longest_step, now - asked_at);
      asked_at = now;
      control.steps_done = steps_before_ + steps_done;
      // The step about to begin must end in time as well.
      return control.stop ||
             (control.until != Clock::time_point::max() && now + longest_step >= control.until);
    };
    const auto snapshot = [&](const SegmentResult& so_far) {
      keep(so_far, update);
      changed_ = true;
      keep_state();
    };
    Result<SegmentResult> result = trainer_.run(order, stop, snapshot);
    if (!result) return result.error();
    steps_before_ += result->steps_run;
    control.steps_done = steps_before_;
    if (result->steps_run > 0) {
      changed_ = true;
      if (Status written = trainer_.write_update(update); !written) return written.error();
    }
    log_.info("segment trained", {{"base", version_},
                                  {"steps", result->steps_run},
                                  {"of", segment.local_steps},
                                  {"loss", result->loss_mean},
                                  {"seconds_per_step", result->seconds_per_step},
                                  {"train_seconds", result->train_seconds}});
    const bool due = Clock::now() - kept_at_ >= std::chrono::duration<double>(options_.keep_s);
    if (options_.keep_s > 0 && due) keep_state();
    return metadata(*result);
  }

 private:
  // An unusable state is no reason to stop: the optimiser begins empty, as in a first job.
  void resume() {
    resumed_ = true;
    std::error_code failed;
    if (options_.training_state.empty() ||
        !std::filesystem::exists(options_.training_state, failed))
      return;
    const Status status = trainer_.resume(options_.training_state);
    if (status) {
      log_.info("goes on with the training state of an earlier job",
                {{"file", options_.training_state.string()}});
    } else {
      log_.warning("begins with an empty optimiser", {{"cause", status.error().message}});
    }
  }

  [[nodiscard]] double seconds_since_job_start() const {
    if (!options_.record.start_s) return 0;
    return std::max(0.0, static_cast<double>(std::time(nullptr) - *options_.record.start_s));
  }

  [[nodiscard]] UpdateMetadata metadata(const SegmentResult& result) const {
    UpdateMetadata out;
    out.base = version_;
    out.steps_run = result.steps_run;
    out.seconds_per_step = result.seconds_per_step;
    out.train_seconds = result.train_seconds;
    out.overhead_s = overhead_s_.value_or(0);
    out.loss = result.loss_mean;
    out.samples = result.samples;
    return out;
  }

  // The file is replaced before its note: a kill between the two leaves a note that counts a few
  // steps less than the file holds, which is better than no note.
  void keep(const SegmentResult& so_far, const std::filesystem::path& update) {
    Snapshot snapshot{UpdateId(update.stem().string()), update, metadata(so_far), token_,
                      controls()};
    Status kept = trainer_.write_update(update);
    if (kept) kept = write_snapshot_note(snapshot);
    if (!kept) log_.warning("no snapshot", {{"cause", kept.error().message}});
  }

  Trainer& trainer_;
  const JobOptions& options_;
  const Log& log_;
  Version version_ = 0;
  std::string token_;
  std::int64_t steps_before_ = 0;
  bool resumed_ = false;  // or tried to
  bool changed_ = false;  // since the state was kept
  Clock::time_point kept_at_ = Clock::now();
  std::optional<double> overhead_s_;
};

// The server looked at the update and will never count it. A broken certificate, by contrast, is
// no judgement: the update waits for its repair.
bool judged_worthless(Code code) {
  switch (code) {
    case Code::refused:
    case Code::conflict:
    case Code::wrong_base:
    case Code::model_format:
    case Code::model_mismatch:
    case Code::not_finite:
    case Code::not_found:
    case Code::too_large:
    case Code::run_finished:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::uint64_t seed_for_attempt(std::uint64_t seed, const FacilityId& facility,
                               const AttemptId& attempt) {
  const std::string digest =
      sha256_hex(std::to_string(seed) + "\n" + facility.str() + "\n" + attempt.str());
  return std::stoull(digest.substr(0, 16), nullptr, 16);
}

void send_leftovers(SessionServer& server, const JobOptions& options, const Log& log) {
  RetryPolicy retry;
  retry.give_up_after = kLeftoverPatience;
  for (const Snapshot& snapshot : list_snapshots(options.job_directory)) {
    const Result<UpdateParts> parts = parse_update_id(snapshot.id.str());
    if (!parts || parts->facility != options.facility || parts->attempt == options.record.attempt) {
      continue;
    }
    Result<UpdateAnswer> answer = server.upload_update(snapshot.id, snapshot.update,
                                                       snapshot.metadata, snapshot.token, retry);
    if (answer) {
      log.info("sent what an earlier launch left", {{"update", snapshot.id},
                                                    {"disposition", to_text(answer->disposition)},
                                                    {"reason", answer->reason}});
      settle_snapshot(snapshot, answer->disposition);
    } else if (judged_worthless(answer.error().code)) {
      log.warning("the server will not take what an earlier launch left",
                  {{"update", snapshot.id}, {"cause", answer.error().message}});
      remove_snapshot(snapshot);
    } else {
      log.warning("could not send what an earlier launch left",
                  {{"update", snapshot.id}, {"cause", answer.error().message}});
      return;
    }
  }
}

int run_job(Trainer& trainer, Collective& collective, SessionServer& server,
            SessionServer& heartbeats, const JobOptions& options, const Log& log) {
  send_leftovers(server, options, log);
  SessionSettings settings;
  settings.facility = options.facility;
  settings.registration.attempt = options.record.attempt;
  settings.registration.nonce = make_nonce();
  settings.registration.plan_key = options.plan_key;
  settings.registration.ranks = collective.size();
  settings.registration.queue = options.record.queue;
  settings.reserve = from_seconds(options.reserve_s);
  const Instant now = steady_instant();
  if (options.record.queue.remaining_s) {
    settings.ends_at = now + from_seconds(*options.record.queue.remaining_s);
  }
  Session session(settings, now);
  SegmentTrainer segment_trainer(trainer, options, log);
  SessionLoopSettings loop;
  loop.job_directory = options.job_directory;
  if (options.interrupted) loop.interrupted = options.interrupted;
  const int exit_code = run_session(session, server, heartbeats, segment_trainer, loop, log);
  if (trainer.usable()) segment_trainer.keep_state();
  if (!trainer.usable()) {
    log.error("a rank failed: the job is ended", {{"ranks", collective.size()}});
    collective.abort(exit_code != 0 ? exit_code : static_cast<int>(Code::rank_lost));
  }
  if (Status released = trainer.finish(); !released) log.error(released.error());
  return exit_code;
}

}  // namespace fedqueue
