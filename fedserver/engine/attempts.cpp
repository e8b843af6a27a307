// Jobs: registration, fencing, heartbeats, leases, and what an attempt does next.
#include <algorithm>
#include <charconv>

#include "core/base/assert.h"
#include "core/base/points.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {
namespace {

Error finished_error(const std::string& reason) {
  return {Code::run_finished, "the run is finished: " + reason, ""};
}

AttemptParts parts_of(const AttemptId& id) {
  const Result<AttemptParts> parts = parse_attempt_id(id.str());
  FEDQUEUE_ASSERT(parts.has_value());
  return *parts;
}

}  // namespace

// Why this launch must not train, or empty.
std::string Engine::refusal_of_launch(const FacilityState& owner,
                                      const JobRegistration& registration) const {
  const auto found = owner.attempts.find(registration.attempt);
  if (found != owner.attempts.end()) {
    if (found->second.phase == AttemptPhase::fenced) {
      return "attempt " + registration.attempt.str() + " was replaced by a later start of its job";
    }
    if (found->second.phase == AttemptPhase::relieved) {
      return "another job of this facility has taken over";
    }
  }
  const AttemptParts parts = parts_of(registration.attempt);
  for (const auto& [other_id, other] : owner.attempts) {
    const AttemptParts other_parts = parts_of(other_id);
    if (other_parts.job_id == parts.job_id && other_parts.restart_count > parts.restart_count) {
      return "job " + parts.job_id + " has been started again since (restart " +
             std::to_string(other_parts.restart_count) + ")";
    }
  }
  return {};
}

void Engine::on(const AttemptArrived& event) {
  FacilityState* owner = facility(event.facility);
  if (owner == nullptr) {
    return answer(Error{Code::identity,
                        "facility '" + event.facility.str() + "' is not enrolled in this run",
                        "Ask the operator for a kit."});
  }
  if (!state_.finished.empty()) return answer(finished_error(state_.finished));
  const std::string refusal = refusal_of_launch(*owner, event.registration);
  if (!refusal.empty()) {
    FEDQUEUE_MARK(launch_refused);
    return answer(Error{Code::conflict, "register the job: " + refusal, ""});
  }

  const AttemptId& id = event.registration.attempt;
  const auto found = owner->attempts.find(id);
  if (found == owner->attempts.end() || found->second.token.empty()) {
    start_attempt(event, *owner);
  } else if (found->second.registration.nonce != event.registration.nonce) {
    FEDQUEUE_MARK(attempt_relaunched);
    record(AttemptRelaunched{event.facility, id, event.registration.nonce, event.fresh_token});
  }
  answer(job_answer(event.facility, id));
  consider_closing(false);
}

void Engine::start_attempt(const AttemptArrived& event, FacilityState& owner) {
  const AttemptId& id = event.registration.attempt;
  const AttemptParts parts = parts_of(id);
  std::vector<AttemptId> older;
  for (const auto& [other_id, other] : owner.attempts) {
    const bool same_job = parts_of(other_id).job_id == parts.job_id;
    if (other_id != id && same_job && other.phase != AttemptPhase::fenced)
      older.push_back(other_id);
  }
  for (const AttemptId& other : older) {
    if (FEDQUEUE_PLANTED(restart_not_fenced)) break;
    FEDQUEUE_MARK(attempt_fenced);
    record(AttemptFenced{event.facility, other,
                         "job " + parts.job_id + " was started again as " + id.str()});
  }
  if (owner.assigned && *owner.assigned != id) {
    FEDQUEUE_MARK(attempt_relieved);
    record(AttemptRelieved{event.facility, *owner.assigned, "job " + id.str() + " took over"});
  }
  // The deadline of its plan, or what a plan would say now for a job submitted by hand.
  double deadline_s = 0;
  if (owner.plan && owner.plan->key == event.registration.plan_key) {
    deadline_s = owner.plan->deadline_wait_s;
  } else {
    const WorkPlan work = policy_->plan(known(event.facility, owner), others_for_plan(),
                                        event.registration.queue.time_limit_s, state_.latest);
    deadline_s = work.deadline_wait_s;
  }
  record(AttemptStarted{event.facility, event.registration, event.fresh_token, deadline_s});
}

JobAnswer Engine::job_answer(const FacilityId& facility_id, const AttemptId& id) {
  JobAnswer reply;
  reply.next = next_for(facility_id, id);
  reply.token = state_.facilities.at(facility_id).attempts.at(id).token;
  reply.heartbeat_s = config_.heartbeat_s;
  reply.lease_s = config_.lease_s;
  reply.training = config_.training;
  reply.training.merge(policy_->training_settings());  // what the run sets itself stays
  return reply;
}

Next Engine::next_for(const FacilityId& facility_id, const AttemptId& id) {
  const AttemptState& attempt = state_.facilities.at(facility_id).attempts.at(id);
  Next next;
  if (attempt.outstanding) {
    next.kind = Next::Kind::segment;
    next.segment = *attempt.outstanding;
    next.reason = "as assigned before";
    return next;
  }
  if (attempt.phase != AttemptPhase::assigned) {
    next.reason = "this job has lost its place";
    return next;
  }
  if (!state_.finished.empty()) {
    next.reason = "the run is finished: " + state_.finished;
    return next;
  }
  const bool waits = waits_for_publish(facility_id, attempt);
  if (!policy_->has_more_segments(attempt.segments_done) &&
      !(waits && policy_->answers_after_publish())) {
    next.reason = "this job's segments are done";
    return next;
  }
  if (waits) {
    next.kind = Next::Kind::wait;
    next.wait_s = answer_retry_s(attempt.place);
    next.reason = "round " + std::to_string(state_.latest + 1) + " already has this facility";
    return next;
  }
  const std::optional<double> left_s = remaining_s(attempt);
  if (attempt.segments_done > 0 && left_s && *left_s <= 0) {
    next.reason = "this job's time is over";
    return next;
  }
  SegmentAssigned assigned = make_segment(facility_id, attempt);
  assigned.attempt = id;
  next.kind = Next::Kind::segment;
  next.segment = assigned.segment;
  next.reason = "round " + std::to_string(state_.latest + 1);
  record(std::move(assigned));
  return next;
}

// Where a facility counts once in a round, it waits for the round's publication; where updates
// count one by one, at most for its own.
bool Engine::waits_for_publish(const FacilityId& facility_id, const AttemptState& attempt) const {
  if (policy_->one_update_per_round()) {
    return (delivered(facility_id) || (state_.reducing && attempt.segments_done > 0)) &&
           (attempt.segments_done > 0 || policy_->holds_facility_until_publish());
  }
  return policy_->answers_after_publish() && attempt.last_update &&
         state_.in_flight.contains(*attempt.last_update) &&
         !state_.decisions.at(*attempt.last_update).answer_now;
}

std::optional<double> Engine::remaining_s(const AttemptState& attempt) const {
  const std::optional<double>& at_start = attempt.registration.queue.remaining_s;
  if (!at_start) return std::nullopt;
  return std::max(0.0, *at_start - to_seconds(now_ - attempt.started_at));
}

SegmentAssigned Engine::make_segment(const FacilityId& facility_id,
                                     const AttemptState& attempt) const {
  SegmentAssigned assigned;
  assigned.facility = facility_id;
  Segment& segment = assigned.segment;
  segment.index = attempt.segments_done + 1;
  segment.base = state_.latest;
  if (attempt.plan && attempt.segments_done == 0) {
    segment.local_steps = attempt.plan->local_steps;
    segment.learning_rate = attempt.plan->learning_rate;
    if (attempt.plan->base >= 0) segment.base = attempt.plan->base;
    assigned.place = attempt.place;
    return assigned;
  }
  KnownFacility self = known(facility_id, state_.facilities.at(facility_id));
  self.active = true;
  if (attempt.segments_done > 0) self.predicted_wait_s = 0;
  const WorkPlan work = policy_->plan(self, others_for_plan(), remaining_s(attempt), state_.latest);
  segment.local_steps = work.local_steps;
  segment.learning_rate = work.learning_rate;
  if (const auto grouped =
          policy_->place(self, groups(), state_.next_group, to_seconds(now_.time_since_epoch()))) {
    segment.local_steps = grouped->local_steps;
    assigned.place = grouped->place;
  }
  return assigned;
}

void Engine::on(const HeartbeatArrived& event) {
  AttemptState* known_attempt = attempt(event.facility, event.attempt);
  if (known_attempt == nullptr) {
    return answer(Error{Code::not_found,
                        "attempt " + event.attempt.str() + " has not registered with this run",
                        ""});
  }
  HeartbeatAnswer reply;
  if (known_attempt->phase == AttemptPhase::fenced) {
    reply.state = HeartbeatAnswer::State::fenced;
    reply.reason = "a later start of this job took over";
  } else if (known_attempt->token != event.heartbeat.token) {
    reply.state = HeartbeatAnswer::State::fenced;
    reply.reason = "another launch of this attempt took over";
  } else {
    known_attempt->lease_until = now_ + from_seconds(config_.lease_s);
    known_attempt->steps_done = event.heartbeat.steps_done;
    if (known_attempt->phase == AttemptPhase::relieved) {
      reply.state = HeartbeatAnswer::State::finish;
      reply.reason = "another job of this facility took over";
    } else if (!state_.finished.empty()) {
      reply.state = HeartbeatAnswer::State::finish;
      reply.reason = "the run is finished: " + state_.finished;
    }
  }
  answer(std::move(reply));
}

void Engine::on(const AttemptLeft& event) {
  FacilityState* owner = facility(event.facility);
  if (owner == nullptr) {
    return answer(Error{Code::identity,
                        "facility '" + event.facility.str() + "' is not enrolled in this run", ""});
  }
  const auto found = owner->attempts.find(event.attempt);
  if (found != owner->attempts.end()) {
    if (!event.end.token.empty() && event.end.token != found->second.token) {
      return answer(Error{Code::conflict,
                          "another launch of attempt " + event.attempt.str() + " took over", ""});
    }
    if (found->second.phase == AttemptPhase::ended || found->second.phase == AttemptPhase::fenced) {
      return;  // said before
    }
  }
  if (!state_.finished.empty() && found == owner->attempts.end()) return;
  end_attempt(event.facility, event.attempt, event.end.state, event.end.detail);
  consider_closing(false);
}

void Engine::end_attempt(const FacilityId& facility_id, const AttemptId& id, std::string state,
                         std::string detail) {
  const FacilityState& owner = state_.facilities.at(facility_id);
  const auto found = owner.attempts.find(id);
  // A relieved attempt has a successor, so its end is no failure of the facility.
  const bool failed =
      state_.finished.empty() &&
      (found == owner.attempts.end() ||
       (found->second.outstanding && found->second.phase == AttemptPhase::assigned));
  if (found == owner.attempts.end()) FEDQUEUE_MARK(job_never_registered);
  AttemptEnded ended{facility_id, id, std::move(state), std::move(detail), failed};
  if (FEDQUEUE_PLANTED(fact_not_journalled)) return apply(ended, now_);
  record(std::move(ended));
}

}  // namespace fedqueue
