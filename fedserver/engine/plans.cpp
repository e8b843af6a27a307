// Enrolment, and plans for the agents: whether to submit a job now, and how much work it is for.
#include <algorithm>

#include "core/base/points.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {

void Engine::on(const FacilityEnrolled& event) {
  const auto found = state_.facilities.find(event.facility);
  if (found != state_.facilities.end() && found->second.samples == event.samples) return;
  record(FacilityJoined{event.facility, event.samples});
}

PlanAnswer Engine::plan_wait(std::string reason, double retry_after_s) const {
  PlanAnswer wait;
  wait.verb = PlanAnswer::Verb::wait;
  wait.reason = std::move(reason);
  wait.retry_after_s = std::max(0.2, retry_after_s);
  return wait;
}

void Engine::on(const PlanRequested& event) {
  FacilityState* owner = facility(event.facility);
  if (owner == nullptr) {
    return answer(Error{Code::identity,
                        "facility '" + event.facility.str() + "' is not enrolled in this run",
                        "Ask the operator for a kit: fedserver cert facility " +
                            event.facility.str() + " --samples N."});
  }
  if (!state_.finished.empty()) {
    PlanAnswer stop;
    stop.verb = PlanAnswer::Verb::stop;
    stop.reason = "the run is finished: " + state_.finished;
    return answer(std::move(stop));
  }
  // The same question again: the reply was lost, not the plan.
  if (owner->plan && owner->plan->key == event.request.key) {
    FEDQUEUE_MARK(plan_repeated);
    return answer(*owner->plan);
  }
  if (auto wait = reason_to_wait(event.facility, *owner, event.request)) {
    return answer(std::move(*wait));
  }
  give_plan(event.facility, *owner, event.request);
  consider_closing(false);
}

std::optional<PlanAnswer> Engine::reason_to_wait(const FacilityId& id,
                                                 const FacilityState& facility,
                                                 const PlanRequest& request) const {
  bool successor = false;
  if (facility.assigned) {
    const AttemptState& running = facility.attempts.at(*facility.assigned);
    const double elapsed_s = to_seconds(now_ - running.started_at);
    std::optional<double> limit_s = running.registration.queue.time_limit_s;
    if (!limit_s && config_.job_time_limit_s > 0) limit_s = config_.job_time_limit_s;
    successor = request.pending_jobs == 0 && policy_->may_submit_successor(elapsed_s, limit_s);
    if (!successor) {
      return plan_wait("job " + facility.assigned->str() + " of this facility is training",
                       plan_retry_s());
    }
  } else if (request.pending_jobs + request.running_jobs > 0) {
    return plan_wait("a job of this facility is queued or running", plan_retry_s());
  }
  for (const auto& [attempt_id, attempt] : facility.attempts) {
    if (attempt.registration.plan_key == request.key) {
      return plan_wait("the plan was used by job " + attempt_id.str(), plan_retry_s());
    }
  }
  // A successor starts some time after it was asked for; and there may be no rounds to wait for.
  if (successor || !policy_->one_update_per_round()) {
    const bool held = !successor && policy_->holds_facility_until_publish() && delivered(id);
    if (held) return plan_wait("this facility's update is being published", 0.2);
    return std::nullopt;
  }
  const bool in_reduction =
      state_.reducing &&
      std::any_of(state_.reducing->updates.begin(), state_.reducing->updates.end(),
                  [&](const ReduceInput& input) { return input.facility == id; });
  const std::string round = std::to_string(state_.latest + 1);
  if (in_reduction) return plan_wait("round " + round + " is being published", 0.2);
  if (!delivered(id)) return std::nullopt;
  if (policy_->holds_facility_until_publish() || !state_.timer_at) {
    return plan_wait("this facility's update waits for round " + round + " to close",
                     plan_retry_s());
  }
  // Submitting earlier than the round can use would train on an old base; later would leave the
  // wait to be sat out after the round. So: when the predicted wait reaches the round's end.
  const double left_s = std::max(0.0, to_seconds(*state_.timer_at - now_));
  const double predicted_s = facility.waits.predicted_s().value_or(0);
  if (predicted_s >= left_s) return std::nullopt;
  return plan_wait("round " + round + " already has this facility's update",
                   std::min(plan_retry_s(), left_s - predicted_s));
}

void Engine::give_plan(const FacilityId& id, FacilityState& owner, const PlanRequest& request) {
  KnownFacility self = known(id, owner);
  self.active = true;
  if (!self.predicted_wait_s) self.predicted_wait_s = request.expected_wait_s;
  const std::optional<double> limit_s =
      config_.job_time_limit_s > 0 ? std::optional(config_.job_time_limit_s) : std::nullopt;
  WorkPlan work = policy_->plan(self, others_for_plan(), limit_s, state_.latest);
  if (owner.assigned) {
    // A successor waits while its predecessor trains, so its wait costs the round no time.
    KnownFacility successor = self;
    successor.predicted_wait_s = 0;
    const double deadline_wait_s = work.deadline_wait_s;
    work = policy_->plan(successor, others_for_plan(), limit_s, state_.latest);
    work.deadline_wait_s = deadline_wait_s;
  }
  const std::optional<GroupedWork> grouped =
      policy_->place(self, groups(), state_.next_group, to_seconds(now_.time_since_epoch()));
  PlanAnswer plan;
  plan.verb = PlanAnswer::Verb::submit;
  plan.reason = "round " + std::to_string(state_.latest + 1) + " is open";
  plan.key = request.key;
  plan.local_steps = grouped ? grouped->local_steps : work.local_steps;
  plan.learning_rate = work.learning_rate;
  plan.time_limit_s = config_.job_time_limit_s;
  plan.deadline_wait_s = work.deadline_wait_s;
  plan.predicted_wait_s = self.predicted_wait_s;
  if (policy_->pins_base_at_plan()) plan.base = state_.latest;
  record(PlanGiven{id, plan, work.budget_s, grouped ? grouped->place : GroupPlace{}});
  answer(plan);
}

}  // namespace fedqueue
