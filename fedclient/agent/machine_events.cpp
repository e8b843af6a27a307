// What AgentMachine makes of what came of its steps; the steps themselves are in machine.cpp.
#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/points.h"
#include "fedclient/agent/machine.h"

namespace fedqueue {
namespace {

// A job that was shown before and is not any more has ended; once may be a hiccup of the listing.
constexpr int missing_polls_to_end = 2;

}  // namespace

void AgentMachine::stored() { dirty_ = false; }

void AgentMachine::schedule_poll(Instant now) {
  const double spread = 1 + 0.2 * random_.uniform();
  poll_at_ = now + from_seconds(to_seconds(poll_interval_) * spread);
}

void AgentMachine::retry(Alarm& alarm, Instant now) {
  ++alarm.failures;
  alarm.at = now + backoff(settings_.server, alarm.failures, random_.uniform());
}

TrackedJob* AgentMachine::job(const std::string& token) {
  for (TrackedJob& tracked : state_.jobs) {
    if (tracked.token == token) return &tracked;
  }
  return nullptr;
}

AgentMachine::Watch& AgentMachine::watch(const std::string& token, Instant now) {
  for (Watch& known : watches_) {
    if (known.token == token) return known;
  }
  watches_.push_back({token, now, 0, false, {}, {}});
  return watches_.back();
}

void AgentMachine::forget(const std::string& token) {
  std::erase_if(state_.jobs, [&](const TrackedJob& tracked) { return tracked.token == token; });
  std::erase_if(watches_, [&](const Watch& known) { return known.token == token; });
  dirty_ = true;
}

void AgentMachine::track(TrackedJob tracked, Instant now) {
  watch(tracked.token, now).since = now;
  if (state_.intent && state_.intent->token == tracked.token) {
    tracked.time_limit_s = state_.intent->plan.time_limit_s;
    state_.intent.reset();
    fresh_intent_ = false;
    tried_ = false;
    may_submit_ = false;
    lookups_ = 0;
    limit_ = {now, 0};
    limit_reason_.clear();
  }
  state_.jobs.push_back(std::move(tracked));
  plan_ = {now, 0};
  dirty_ = true;
}

void AgentMachine::take_view(const JobView& view, Instant now) {
  TrackedJob* known = job(view.token);
  if (known == nullptr) {
    const bool intended = state_.intent && state_.intent->token == view.token;
    if (view.phase == JobPhase::ended && !intended) return;  // settled long ago
    if (!intended) FEDQUEUE_MARK(agent_adopted);
    TrackedJob adopted;
    adopted.token = view.token;
    adopted.handle = view.handle;
    track(adopted, now);
    known = job(view.token);
  }
  if (known->handle.id != view.handle.id) return;  // a second job of the same token: see surplus_
  Watch& watched = watch(view.token, now);
  watched.missing = 0;
  if (known->phase != view.phase || known->state != view.state || !known->seen ||
      known->restart_count != view.restart_count) {
    if (known->phase != view.phase) plan_ = {now, 0};
    dirty_ = true;
  }
  if (known->phase != JobPhase::ended) {
    known->phase = view.phase;
    watched.inspected = false;
  }
  known->seen = true;
  known->state = view.state;
  known->reason = view.reason;
  known->restart_count = std::max(known->restart_count, view.restart_count);
  if (!view.handle.cluster.empty()) known->handle.cluster = view.handle.cluster;
  if (view.phase == JobPhase::queued) expected_wait_s_ = view.expected_wait_s;
}

void AgentMachine::take_missing(const std::vector<JobView>& views, Instant now) {
  for (TrackedJob& tracked : state_.jobs) {
    if (tracked.phase == JobPhase::ended) continue;
    const bool shown = std::any_of(views.begin(), views.end(), [&](const JobView& view) {
      return view.token == tracked.token && view.handle.id == tracked.handle.id;
    });
    if (shown) continue;
    Watch& watched = watch(tracked.token, now);
    FEDQUEUE_MARK(agent_job_missing);
    ++watched.missing;
    watched.inspected = false;
  }
}

// Two jobs of one token: a submission that seemed lost was not. The one that is further stays.
void AgentMachine::find_surplus(const std::vector<JobView>& views) {
  surplus_.clear();
  for (const JobView& view : views) {
    const TrackedJob* kept = job(view.token);
    if (kept != nullptr && kept->handle.id != view.handle.id && view.phase != JobPhase::ended) {
      FEDQUEUE_MARK(agent_surplus);
      surplus_.push_back(view);
    }
  }
}

void AgentMachine::polled(const std::vector<JobView>& jobs, Duration took, Instant now) {
  recovered_ = true;
  expected_wait_s_.reset();
  // Running ones first, so that they are the ones to stay.
  std::vector<JobView> views = jobs;
  std::stable_sort(views.begin(), views.end(), [](const JobView& a, const JobView& b) {
    const auto rank = [](JobPhase phase) {
      return phase == JobPhase::running ? 0 : phase == JobPhase::ended ? 2 : 1;
    };
    return rank(a.phase) < rank(b.phase);
  });
  for (const JobView& view : views) take_view(view, now);
  take_missing(views, now);
  find_surplus(views);
  poll_interval_ = took > settings_.poll_slow ? std::min(poll_interval_ * 2, settings_.poll_longest)
                                              : settings_.poll_interval;
  schedule_poll(now);
  if (cancelling_) poll_at_ = now + settings_.cancel_interval;
}

void AgentMachine::poll_failed(const Error& error, Instant now) {
  if (error.code == Code::scheduler_missing) {
    fail(error);
    return;
  }
  poll_interval_ = std::min(poll_interval_ * 2, settings_.poll_longest);
  schedule_poll(now);
  if (settings_.once) fail(error);
  if (cancelling_) {
    ++cancels_;
    poll_at_ = cancel_at_ = now + settings_.cancel_interval;
  }
}

void AgentMachine::plan_answered(const PlanAnswer& answer, Instant now) {
  FEDQUEUE_ASSERT(state_.intent && !state_.intent->planned);
  plan_.failures = 0;
  plan_asked_ = true;
  plan_reason_ = answer.reason;
  switch (answer.verb) {
    case PlanAnswer::Verb::wait: {
      const Duration floor = std::min<Duration>(std::chrono::seconds(1), settings_.poll_interval);
      plan_.at = now + std::max(floor, from_seconds(answer.retry_after_s));
      if (plan_reason_.empty()) plan_reason_ = "the server said so";
      return;
    }
    case PlanAnswer::Verb::stop:
      end_run(answer.reason.empty() ? "the server says that the run is over" : answer.reason, now);
      return;
    case PlanAnswer::Verb::submit:
      state_.intent->planned = true;
      state_.intent->plan = answer;
      if (!answer.key.empty()) state_.intent->token = answer.key;
      fresh_intent_ = !tried_;
      may_submit_ = false;
      lookups_ = 0;
      limit_ = {now, 0};
      limit_reason_.clear();
      dirty_ = !FEDQUEUE_PLANTED(agent_forgets_intent);
      return;
  }
}

void AgentMachine::plan_failed(const Error& error, Instant now) {
  if (error.code == Code::run_finished) {
    end_run(error.message, now);
  } else if (!may_pass(error.code)) {
    fail(error);
  } else {
    plan_reason_ = error.message;
    retry(plan_, now);
    if (settings_.once) fail(error);
  }
}

void AgentMachine::looked_up(const std::optional<JobView>& found, Instant now) {
  FEDQUEUE_ASSERT(state_.intent);
  look_up_.failures = 0;
  if (found) {
    FEDQUEUE_MARK(agent_found_by_token);
    take_view(*found, now);
    return;
  }
  ++lookups_;
  if (lookups_ >= lookups_needed_ && now >= settled_by_) {
    FEDQUEUE_MARK(agent_submits_again);
    may_submit_ = true;
    return;
  }
  // Spread over the time that a slow submission may take.
  const Duration gap = settings_.settle_time / std::max(1, settings_.lookups_needed);
  look_up_.at = std::min(now + gap, std::max(settled_by_, now + gap / 4));
}

void AgentMachine::look_up_failed(const Error& error, Instant now) {
  if (error.code == Code::scheduler_missing) {
    fail(error);
    return;
  }
  retry(look_up_, now);
  look_up_.at = std::max(look_up_.at, now + settings_.poll_interval);
}

void AgentMachine::submitted(const JobHandle& handle, Instant now) {
  FEDQUEUE_ASSERT(state_.intent);
  TrackedJob tracked;
  tracked.token = state_.intent->token;
  tracked.handle = handle;
  tracked.state = "SUBMITTED";
  track(tracked, now);
  schedule_poll(now);
}

void AgentMachine::submit_failed(const Error& error, Instant now) {
  FEDQUEUE_ASSERT(state_.intent);
  fresh_intent_ = false;
  tried_ = true;
  may_submit_ = false;
  lookups_ = 0;
  switch (error.code) {
    case Code::scheduler_limit: {
      // A clear no: nothing of this submission can still come.
      FEDQUEUE_MARK(agent_limit);
      limit_reason_ = error.message;
      settled_by_ = now;
      lookups_needed_ = 1;
      RetryPolicy gentle{settings_.limit_retry, settings_.limit_retry_longest, Duration::max()};
      ++limit_.failures;
      limit_.at = now + backoff(gentle, limit_.failures, random_.uniform());
      look_up_.at = limit_.at;
      // Meanwhile the run may end: ask for the plan again, with the same key.
      state_.intent->planned = false;
      plan_.at = limit_.at;
      plan_reason_ = "a limit of the site: " + error.message;
      dirty_ = true;
      return;
    }
    case Code::try_again:
    case Code::scheduler:
      may_submit_ = FEDQUEUE_PLANTED(agent_submits_blindly);
      limit_reason_.clear();
      limit_.at = now;
      lookups_needed_ = settings_.lookups_needed;
      settled_by_ = now + settings_.settle_time;
      look_up_.at = now + settings_.settle_time / std::max(1, settings_.lookups_needed);
      return;
    default:
      state_.intent.reset();
      dirty_ = true;
      fail(error);
      return;
  }
}

void AgentMachine::inspected(const JobOutcome& outcome, Instant now) {
  TrackedJob* tracked = job(at_hand_);
  if (tracked == nullptr) return;
  Watch& watched = watch(at_hand_, now);
  watched.inspected = true;
  if (outcome.known && outcome.phase == JobPhase::ended) {
    tracked->phase = JobPhase::ended;
    tracked->state = outcome.state;
    tracked->detail = outcome.detail;
    if (outcome.restart_count) tracked->restart_count = *outcome.restart_count;
  } else if (tracked->phase == JobPhase::ended) {
    if (tracked->detail.empty()) tracked->detail = tracked->reason;
  } else if (outcome.known) {  // the listing was wrong: it is alive
    tracked->seen = true;
    FEDQUEUE_MARK(agent_job_alive_again);
    watched.missing = 0;
    return;
  } else {
    const Duration limit =
        tracked->time_limit_s > 0 ? from_seconds(2 * tracked->time_limit_s) : settings_.unseen_time;
    const bool proved = tracked->seen
                            ? watched.missing >= missing_polls_to_end
                            : now - watched.since >= std::max(limit, settings_.settle_time);
    if (!proved && !FEDQUEUE_PLANTED(agent_gives_up_unseen)) return;
    FEDQUEUE_MARK(agent_job_vanished);
    tracked->phase = JobPhase::ended;
    tracked->state = "VANISHED";
    tracked->detail = tracked->seen
                          ? "the scheduler no longer knows this job, last seen " + tracked->state
                          : "the scheduler accepted this job and never showed it";
  }
  plan_ = {now, 0};
  dirty_ = true;
}

void AgentMachine::inspect_failed(const Error&, Instant now) {
  Watch& watched = watch(at_hand_, now);
  retry(watched.inspect, now);
  // Whatever else it could tell: that it ended was seen.
  TrackedJob* tracked = job(at_hand_);
  if (tracked != nullptr && tracked->phase == JobPhase::ended) watched.inspected = true;
}

// A job that the scheduler or its owner ended did not fail by itself; one whose work counts did not
// fail for the run.
void AgentMachine::note_end(const TrackedJob& ended, bool delivered, Instant now) {
  if (delivered || (ended.state != "FAILED" && ended.state != "OUT_OF_MEMORY" &&
                    ended.state != "BOOT_FAIL" && ended.state != "LAUNCH_FAILED")) {
    failed_jobs_ = {now, 0};
    return;
  }
  const RetryPolicy policy{settings_.failure_retry, settings_.failure_retry_longest,
                           Duration::max()};
  FEDQUEUE_MARK(agent_failures);
  ++failed_jobs_.failures;
  failed_jobs_.at = now + backoff(policy, failed_jobs_.failures, random_.uniform());
  if (failed_jobs_.failures >= settings_.failures_max && !ending_) {
    fail({Code::launch,
          "the last " + std::to_string(failed_jobs_.failures) + " jobs failed; job " +
              ended.handle.id + ": " + ended.state + ", " + ended.detail,
          "Look at the job's output in the state directory, correct the cause, and start the agent "
          "again."});
  }
}

void AgentMachine::settled(Instant now, bool delivered) {
  if (const TrackedJob* ended = job(at_hand_)) note_end(*ended, delivered, now);
  forget(at_hand_);
  plan_ = {std::min(plan_.at, now), 0};
}

void AgentMachine::settle_failed(const Error& error, Instant now) {
  if (!may_pass(error.code)) {  // it will not get better; the server's lease ends the attempt
    settled(now);
    return;
  }
  FEDQUEUE_MARK(agent_settle_failed);
  Watch& watched = watch(at_hand_, now);
  retry(watched.settle, now);
}

void AgentMachine::cancel_sent(Instant now) {
  surplus_.clear();
  if (!cancelling_) return;
  ++cancels_;
  cancel_at_ = now + settings_.cancel_interval;
  poll_at_ = cancel_at_;
}

void AgentMachine::cancel_failed(const Error&, Instant now) { cancel_sent(now); }

void AgentMachine::end_run(const std::string& reason, Instant now) {
  FEDQUEUE_MARK(agent_ended_by_run);
  reason_ = reason;
  state_.intent.reset();
  dirty_ = true;
  ending_ = true;
  cancelling_ = true;
  cancel_at_ = now;
  spare_running_until_ = now + settings_.finish_time;
  poll_at_ = std::min(poll_at_, now + settings_.cancel_interval);
}

void AgentMachine::stop(const std::string& reason, Instant now) {
  if (over_) return;
  if (ending_) {  // asked twice: at once
    over_ = true;
    return;
  }
  reason_ = reason;
  if (!settings_.cancel_on_exit) {
    over_ = true;
    return;
  }
  // A submission that may still come must be found before it can be cancelled; its intent stays
  // on disk for the next agent.
  ending_ = true;
  cancelling_ = true;
  cancel_at_ = poll_at_ = now;
}

void AgentMachine::fail(const Error& error) {
  error_ = error;
  reason_ = error.message;
  over_ = true;
}

int AgentMachine::exit_code() const { return error_ ? fedqueue::exit_code(*error_) : 0; }

std::string AgentMachine::new_token() {
  static constexpr char digits[] = "0123456789abcdef";
  std::string token(24, '0');
  for (char& digit : token) digit = digits[random_.below(16)];
  return token;
}

}  // namespace fedqueue
