// One trainer job's dealings with the server, from its registration to its end, as a pure state
// machine: it says what to do next and is told what came of it. Rank 0 performs the steps
// (session_loop.h); the simulator plays them.
//
//   enrol ──segment──▶ fetch ──▶ train ──▶ upload ──next──┬─ segment ▶ fetch
//     ▲                                                   ├─ wait ────▶ wait ──▶ ask ──next──▶ …
//     └── wait ◀── failures that may pass                 └─ stop ────▶ report ──▶ over
//
// Promises:
//   1. A failure that may pass is tried again with a growing delay, and given up after
//      `retry.give_up_after` without success or when the allocation is about to end.
//   2. A failure that cannot pass ends the session at once with the server's own reason.
//   3. A fenced session never sends anything again.
//   4. Steps that were really run are sent, however training ended: interrupted, out of time, or
//      told to finish. An update without a step is not sent.
//   5. The same launch keeps its nonce, so that registering again never looks like a second job.
//
// Not thread-safe. Source: docs/protocol.md, "A trainer's session".
#pragma once

#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/protocol/messages.h"
#include "core/protocol/upload.h"

namespace fedqueue {

struct SessionSettings {
  FacilityId facility;
  JobRegistration registration;
  RetryPolicy retry;
  // When the allocation ends, on the clock of `now`; nothing when that is not known.
  std::optional<Instant> ends_at;
  // Kept free before that end: to finish the step at hand, send the update and leave.
  Duration reserve = std::chrono::seconds(30);
};

class Session {
 public:
  enum class Step {
    enrol,   // POST jobs with settings.registration; then enrolled()
    fetch,   // model of segment().base; then fetched()
    train,   // segment() until it is done, finishing() or train_until(); then trained()
    upload,  // update_id() with metadata() and token(); then uploaded()
    ask,     // GET updates/{update_id()}: what comes next by now; then asked()
    wait,    // until wake_at(), or an interrupt; then waited()
    report,  // DELETE jobs/{attempt} with end(); then reported(), whatever came of it
    over,    // exit_code(), reason()
  };

  Session(SessionSettings settings, Instant now);

  [[nodiscard]] Step step() const { return step_; }
  [[nodiscard]] const SessionSettings& settings() const { return settings_; }
  [[nodiscard]] const JobAnswer& job() const { return job_; }  // empty before enrolled()
  [[nodiscard]] const std::string& token() const { return job_.token; }
  [[nodiscard]] const Segment& segment() const { return segment_; }
  [[nodiscard]] UpdateId update_id() const;
  [[nodiscard]] const UpdateMetadata& metadata() const { return metadata_; }
  [[nodiscard]] Instant wake_at() const { return wake_at_; }
  [[nodiscard]] JobEnd end() const;

  // How long an upload that begins now may go on failing.
  [[nodiscard]] RetryPolicy upload_retry(Instant now) const;
  // Training stops at the end of the step in which this is reached.
  [[nodiscard]] std::optional<Instant> train_until() const;

  void enrolled(JobAnswer answer, Instant now);
  void fetched(Instant now);
  void trained(const UpdateMetadata& metadata, Instant now);
  void uploaded(const UpdateAnswer& answer, Instant now);
  void asked(const UpdateAnswer& answer, Instant now);
  void waited(Instant now);
  void reported();
  // The step at hand did not succeed. `jitter` in [0, 1).
  void failed(const Error& error, Instant now, double jitter);

  // Heartbeats run beside the steps, from the registration to the end.
  [[nodiscard]] std::optional<Instant> heartbeat_due() const;
  [[nodiscard]] Heartbeat heartbeat(std::int64_t steps_done) const;
  void heartbeat_answered(const HeartbeatAnswer& answer, Instant now);
  void heartbeat_failed(const Error& error, Instant now);

  // A signal, or the scheduler's announcement: finish the step at hand, send, leave.
  void interrupt(const std::string& reason, Instant now);

  // The trainer asks after every local step. abandoned(): what is being done is worth nothing any
  // more (fenced, or the run is over); drop it.
  [[nodiscard]] bool finishing() const { return !finish_reason_.empty() || abandoned(); }
  [[nodiscard]] bool abandoned() const { return step_ == Step::over; }

  // At the end. 0 also when the run was over before this job began, and when the job was told to
  // stop: those are not failures.
  [[nodiscard]] int exit_code() const;
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  [[nodiscard]] int updates_accepted() const { return accepted_; }
  [[nodiscard]] int updates_rejected() const { return rejected_; }

 private:
  // `waiting` is the step that finds out more when the answer is to wait.
  void follow(const Next& next, Step waiting, Instant now);
  void leave(const std::string& reason);
  void fail(const Error& error);
  void finish_run(const std::string& reason);
  void pause_until(Instant wake_at, Instant now);
  [[nodiscard]] bool out_of_time(Instant now) const;

  SessionSettings settings_;
  Step step_ = Step::enrol;
  JobAnswer job_;
  Segment segment_;
  UpdateMetadata metadata_;
  Version held_ = -1;  // the version that the trainer has loaded and not trained on
  Instant wake_at_{};
  Step after_wait_ = Step::enrol;
  std::optional<Instant> heartbeat_due_;
  int failures_ = 0;
  std::optional<Instant> failing_since_;
  int bases_lost_ = 0;
  int accepted_ = 0;
  int rejected_ = 0;
  std::string last_rejection_;
  std::string finish_reason_;
  std::string reason_;
  std::optional<Error> error_;
};

}  // namespace fedqueue
