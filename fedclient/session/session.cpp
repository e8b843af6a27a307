#include "fedclient/session/session.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/points.h"

namespace fedqueue {
namespace {

// A base can be pruned between the assignment and the download; more often than this it is no
// coincidence.
constexpr int bases_lost_max = 3;

Instant not_before(Instant now, double seconds) { return now + from_seconds(seconds); }

}  // namespace

Session::Session(SessionSettings settings, Instant now)
    : settings_(std::move(settings)), wake_at_(now) {
  if (out_of_time(now)) leave("the allocation ends before training could begin");
}

UpdateId Session::update_id() const {
  return make_update_id(settings_.facility, settings_.registration.attempt, segment_.index);
}

std::optional<Instant> Session::train_until() const {
  if (!settings_.ends_at) return std::nullopt;
  return *settings_.ends_at - settings_.reserve;
}

bool Session::out_of_time(Instant now) const {
  const std::optional<Instant> until = train_until();
  return until && now >= *until;
}

RetryPolicy Session::upload_retry(Instant now) const {
  RetryPolicy policy = settings_.retry;
  if (settings_.ends_at) {
    const Duration left = *settings_.ends_at - now;
    policy.give_up_after = std::min(policy.give_up_after, std::max(left, Duration{}));
  }
  return policy;
}

void Session::enrolled(JobAnswer answer, Instant now) {
  if (step_ == Step::over) return;  // fenced meanwhile
  FEDQUEUE_ASSERT(step_ == Step::enrol);
  failures_ = 0;
  failing_since_.reset();
  job_ = std::move(answer);
  if (job_.heartbeat_s > 0) heartbeat_due_ = not_before(now, job_.heartbeat_s);
  follow(job_.next, Step::enrol, now);
}

void Session::fetched(Instant now) {
  if (step_ == Step::over) return;
  FEDQUEUE_ASSERT(step_ == Step::fetch);
  failures_ = 0;
  failing_since_.reset();
  bases_lost_ = 0;
  held_ = segment_.base;
  if (!finish_reason_.empty() || out_of_time(now)) {
    leave(finish_reason_.empty() ? "no time left for training" : finish_reason_);
    return;
  }
  step_ = Step::train;
}

void Session::trained(const UpdateMetadata& metadata, Instant) {
  if (step_ == Step::over) return;  // fenced while training
  FEDQUEUE_ASSERT(step_ == Step::train);
  held_ = -1;
  metadata_ = metadata;
  metadata_.base = segment_.base;
  if (metadata.steps_run <= 0) {
    leave(finish_reason_.empty() ? "no time left for a single step" : finish_reason_);
    return;
  }
  step_ = Step::upload;
}

void Session::uploaded(const UpdateAnswer& answer, Instant now) {
  if (step_ == Step::over) return;
  FEDQUEUE_ASSERT(step_ == Step::upload);
  failures_ = 0;
  failing_since_.reset();
  if (answer.disposition == Disposition::rejected) {
    ++rejected_;
    last_rejection_ = answer.reason;
  } else {
    ++accepted_;
  }
  if (!finish_reason_.empty()) {
    leave(finish_reason_);
    return;
  }
  follow(answer.next, Step::ask, now);
}

void Session::asked(const UpdateAnswer& answer, Instant now) {
  if (step_ == Step::over) return;
  FEDQUEUE_ASSERT(step_ == Step::ask);
  failures_ = 0;
  failing_since_.reset();
  follow(answer.next, Step::ask, now);
}

void Session::follow(const Next& next, Step waiting, Instant now) {
  if (!finish_reason_.empty()) {
    leave(finish_reason_);
    return;
  }
  switch (next.kind) {
    case Next::Kind::stop:
      leave(next.reason.empty() ? "the server has no more work for this job" : next.reason);
      return;
    case Next::Kind::wait:
      after_wait_ = waiting;
      pause_until(not_before(now, next.wait_s), now);
      return;
    case Next::Kind::segment:
      break;
  }
  segment_ = next.segment;
  if (out_of_time(now)) {
    FEDQUEUE_MARK(session_out_of_time);
    leave("no time left for another segment");
  } else if (held_ == segment_.base) {
    step_ = Step::train;
  } else {
    step_ = Step::fetch;
  }
}

void Session::pause_until(Instant wake_at, Instant now) {
  if (const std::optional<Instant> until = train_until(); until && wake_at >= *until) {
    leave("the allocation ends before there is work again");
    return;
  }
  wake_at_ = std::max(wake_at, now);
  step_ = Step::wait;
}

void Session::waited(Instant) {
  if (step_ != Step::wait) return;  // an interrupt ended the wait
  FEDQUEUE_MARK(session_waited);
  step_ = after_wait_;
}

void Session::leave(const std::string& reason) {
  reason_ = reason;
  // A job that never registered has nothing to report.
  step_ = job_.token.empty() ? Step::over : Step::report;
  if (step_ == Step::over) heartbeat_due_.reset();
}

void Session::finish_run(const std::string& reason) {
  reason_ = reason.empty() ? "the run is finished" : reason;
  error_.reset();
  step_ = Step::over;
  heartbeat_due_.reset();
}

void Session::fail(const Error& error) {
  error_ = error;
  leave(error.message);
}

void Session::reported() {
  if (step_ == Step::over) return;
  FEDQUEUE_ASSERT(step_ == Step::report);
  step_ = Step::over;
  heartbeat_due_.reset();
}

void Session::failed(const Error& error, Instant now, double jitter) {
  if (step_ == Step::over) return;
  FEDQUEUE_ASSERT(step_ != Step::wait);
  if (step_ == Step::report) {  // the lease ends this job at the server soon enough
    reported();
    return;
  }
  if (error.code == Code::run_finished) {
    finish_run(error.message);
    return;
  }
  const bool idle = step_ == Step::enrol || step_ == Step::fetch || step_ == Step::ask;
  if (!finish_reason_.empty() && idle) {
    leave(finish_reason_);
    return;
  }
  // A server that does not know the update any more still knows the job.
  if (step_ == Step::ask && error.code == Code::not_found) {
    step_ = Step::enrol;
    return;
  }
  // The base was pruned while this job looked for it: ask for another one.
  const bool base_lost =
      step_ == Step::fetch && (error.code == Code::not_found || error.code == Code::wrong_base);
  if (base_lost && ++bases_lost_ <= bases_lost_max) {
    FEDQUEUE_MARK(session_base_lost);
    after_wait_ = Step::enrol;
    pause_until(now + backoff(settings_.retry, bases_lost_, jitter), now);
    return;
  }
  // Training does not get better by itself, and the upload has its own retries behind it.
  if (step_ == Step::train || step_ == Step::upload || !may_pass(error.code)) {
    fail(error);
    return;
  }
  if (FEDQUEUE_PLANTED(session_never_retries)) return fail(error);
  if (!failing_since_) failing_since_ = now;
  ++failures_;
  const Instant wake_at = now + backoff(settings_.retry, failures_, jitter);
  const std::optional<Instant> until = train_until();
  if (wake_at - *failing_since_ > settings_.retry.give_up_after || (until && wake_at >= *until)) {
    FEDQUEUE_MARK(session_gave_up);
    fail(error);
    return;
  }
  after_wait_ = step_;
  pause_until(wake_at, now);
}

std::optional<Instant> Session::heartbeat_due() const { return heartbeat_due_; }

Heartbeat Session::heartbeat(std::int64_t steps_done) const { return {job_.token, steps_done}; }

void Session::heartbeat_answered(const HeartbeatAnswer& answer, Instant now) {
  if (step_ == Step::over) return;
  heartbeat_due_ = not_before(now, job_.heartbeat_s);
  switch (answer.state) {
    case HeartbeatAnswer::State::go_on:
      return;
    case HeartbeatAnswer::State::finish:
      FEDQUEUE_MARK(session_told_to_finish);
      interrupt(answer.reason.empty() ? "the server asked this job to finish" : answer.reason, now);
      return;
    case HeartbeatAnswer::State::fenced:
      FEDQUEUE_MARK(session_fenced);
      if (FEDQUEUE_PLANTED(session_ignores_fence)) return;
      error_ = Error{Code::conflict,
                     "this launch was replaced by another one" +
                         (answer.reason.empty() ? std::string() : ": " + answer.reason),
                     "Nothing is to be done if the job was requeued; otherwise start the trainer "
                     "once per job."};
      reason_ = error_->message;
      step_ = Step::over;
      heartbeat_due_.reset();
      return;
  }
}

void Session::heartbeat_failed(const Error& error, Instant now) {
  if (step_ == Step::over || !heartbeat_due_) return;
  if (error.code == Code::run_finished) {
    finish_run(error.message);
  } else if (error.code == Code::conflict) {
    heartbeat_answered({HeartbeatAnswer::State::fenced, error.message}, now);
  } else if (error.code == Code::revoked || error.code == Code::identity) {
    finish_run(error.message);
    error_ = error;
  } else {
    // Nothing is lost by a missed heartbeat before the lease ends, and after it the update still
    // gets its answer; so training goes on.
    heartbeat_due_ = not_before(now, job_.heartbeat_s);
  }
}

void Session::interrupt(const std::string& reason, Instant) {
  if (step_ == Step::over || !finish_reason_.empty()) return;
  FEDQUEUE_MARK(session_interrupted);
  finish_reason_ = reason.empty() ? "interrupted" : reason;
  // A step that talks to the server or trains comes to its own end first.
  if (step_ == Step::wait) leave(finish_reason_);
}

JobEnd Session::end() const { return {job_.token, error_ ? "failed" : "done", reason_}; }

int Session::exit_code() const {
  if (error_) return fedqueue::exit_code(*error_);
  if (rejected_ > 0 && accepted_ == 0) return static_cast<int>(Code::aggregation);
  return 0;
}

}  // namespace fedqueue
