#include "fedclient/agent/machine.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

// So often a listing must have missed a job before its outcome is asked for.
constexpr int missing_polls_to_inspect = 1;

}  // namespace

AgentMachine::AgentMachine(AgentSettings settings, AgentState restored, Instant now)
    : settings_(settings),
      state_(std::move(restored)),
      random_(settings.seed),
      lookups_needed_(settings.lookups_needed),
      settled_by_(now + settings.settle_time),
      poll_interval_(settings.poll_interval),
      poll_at_(now) {
  plan_.at = now;
  look_up_.at = now;
  limit_.at = now;
  // An agent that was killed while it asked for a plan asks again with the same key.
  for (const TrackedJob& tracked : state_.jobs) watch(tracked.token, now).since = now;
}

AgentMachine::Step AgentMachine::step(Instant now) {
  if (dirty_) return Step::store;
  if (over_) return Step::over;
  wake_at_ = Instant::max();
  waiting_for_.clear();
  if (const std::optional<Step> next = next_step(now)) return *next;
  if (settings_.once && !ending_) {
    over_ = true;
    reason_ = waiting_for_.empty() ? "done once" : "done once; next: " + waiting_for_;
    return Step::over;
  }
  return Step::wait;
}

std::optional<AgentMachine::Step> AgentMachine::next_step(Instant now) {
  // First of all: what is there? A job of ours may run although our own files are lost.
  if (!recovered_) {
    if (ending_ && cancels_ >= settings_.cancel_tries) {
      fail({Code::scheduler,
            "the scheduler did not answer, so that jobs could not be looked for and cancelled",
            "Look at them with squeue, and cancel them with scancel."});
      return Step::over;
    }
    if (now >= poll_at_) return Step::poll;
    wait_until(poll_at_, "the scheduler");
    return std::nullopt;
  }
  for (const TrackedJob& tracked : state_.jobs) {
    Watch& seen = watch(tracked.token, now);
    const bool gone = tracked.phase == JobPhase::ended || seen.missing >= missing_polls_to_inspect;
    if (gone && !seen.inspected) {
      if (now >= seen.inspect.at) {
        at_hand_ = tracked.token;
        return Step::inspect;
      }
      wait_until(seen.inspect.at, "the scheduler's word on an ended job");
    } else if (tracked.phase == JobPhase::ended) {
      if (now >= seen.settle.at) {
        at_hand_ = tracked.token;
        return Step::settle;
      }
      wait_until(seen.settle.at, "the server, to settle an ended job");
    }
  }
  if (ending_) return ending_step(now);
  if (!surplus_.empty()) return Step::cancel;
  if (live_jobs() > 0) {
    if (now >= poll_at_) return Step::poll;
    wait_until(poll_at_, "the jobs");
  }
  return intent_step(now);
}

std::optional<AgentMachine::Step> AgentMachine::intent_step(Instant now) {
  if (state_.intent && state_.intent->planned) {
    if (!has_room()) return std::nullopt;
    if (fresh_intent_ || may_submit_) {
      if (now >= limit_.at) return Step::submit;
      wait_until(limit_.at, "a limit of the site");
      return std::nullopt;
    }
    const Instant at = std::max(look_up_.at, limit_.at);
    if (now >= at) return Step::look_up;
    wait_until(at, limit_reason_.empty() ? "the scheduler to show a job" : "a limit of the site");
    return std::nullopt;
  }
  if (settings_.once && plan_asked_) return std::nullopt;
  // Asked also while there is no room: the answer may be that the run is over.
  if (failed_jobs_.failures > 0 && now < failed_jobs_.at) {
    wait_until(failed_jobs_.at, "a while, since the last job failed");
    return std::nullopt;
  }
  if (now < plan_.at) {
    wait_until(plan_.at, plan_reason_.empty() ? "the server" : plan_reason_.c_str());
    return std::nullopt;
  }
  if (!state_.intent) {
    // The key is durable before it is used, so that a stop right after the server's answer does
    // not leave a plan that nobody knows of.
    state_.intent = Intent{new_token(), false, {}};
    tried_ = false;
    dirty_ = true;
    return Step::store;
  }
  return Step::ask_plan;
}

std::optional<AgentMachine::Step> AgentMachine::ending_step(Instant now) {
  if (!cancelling_ || live_jobs() == 0) {
    over_ = true;
    return Step::over;
  }
  spare_running_ = now < spare_running_until_;
  if (spare_running_ && to_cancel().empty()) {
    if (now >= poll_at_) return Step::poll;
    wait_until(std::min(poll_at_, spare_running_until_), "running jobs to end by themselves");
    return std::nullopt;
  }
  if (now < cancel_at_) {
    wait_until(cancel_at_, "cancelled jobs to end");
    return std::nullopt;
  }
  // A look in between: what has ended needs no other scancel.
  if (now >= poll_at_ && cancels_ > 0) return Step::poll;
  if (cancels_ >= settings_.cancel_tries) {
    over_ = true;
    if (!error_) {
      error_ = Error{Code::scheduler,
                     std::to_string(live_jobs()) + " jobs are still there after " +
                         std::to_string(cancels_) + " tries to cancel them",
                     "Look at them with squeue, and cancel them with scancel."};
      reason_ = error_->message;
    }
    return Step::over;
  }
  return Step::cancel;
}

void AgentMachine::wait_until(Instant at, const char* what) {
  if (at < wake_at_) {
    wake_at_ = at;
    waiting_for_ = what;
  }
}

bool AgentMachine::has_room() const {
  return live_jobs() < settings_.jobs_max && count(JobPhase::queued) < settings_.pending_max;
}

int AgentMachine::count(JobPhase phase) const {
  return static_cast<int>(
      std::count_if(state_.jobs.begin(), state_.jobs.end(),
                    [phase](const TrackedJob& tracked) { return tracked.phase == phase; }));
}

int AgentMachine::live_jobs() const {
  return static_cast<int>(state_.jobs.size()) - count(JobPhase::ended);
}

PlanRequest AgentMachine::plan_request() const {
  PlanRequest request;
  request.key = state_.intent->token;
  request.pending_jobs = count(JobPhase::queued);
  request.running_jobs = live_jobs() - request.pending_jobs;
  request.expected_wait_s = expected_wait_s_;
  return request;
}

const TrackedJob& AgentMachine::job_at_hand() const {
  const auto found =
      std::find_if(state_.jobs.begin(), state_.jobs.end(),
                   [this](const TrackedJob& tracked) { return tracked.token == at_hand_; });
  FEDQUEUE_ASSERT(found != state_.jobs.end());
  return *found;
}

std::vector<JobView> AgentMachine::to_cancel() const {
  std::vector<JobView> views = surplus_;
  if (!cancelling_) return views;
  for (const TrackedJob& tracked : state_.jobs) {
    if (tracked.phase == JobPhase::ended) continue;
    if (tracked.phase == JobPhase::running && spare_running_) continue;
    JobView view;
    view.handle = tracked.handle;
    view.token = tracked.token;
    view.phase = tracked.phase;
    views.push_back(view);
  }
  return views;
}

std::vector<std::string> AgentMachine::left() const {
  std::vector<std::string> ids;
  for (const TrackedJob& tracked : state_.jobs) {
    if (tracked.phase != JobPhase::ended) ids.push_back(tracked.handle.id);
  }
  return ids;
}

}  // namespace fedqueue
