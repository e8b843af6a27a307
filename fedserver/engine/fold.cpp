// Folding facts into the state: what happened is written down and nothing is decided.
#include <algorithm>

#include "core/base/assert.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {
namespace {

void forget(std::vector<UpdateId>& list, const UpdateId& id) {
  list.erase(std::remove(list.begin(), list.end(), id), list.end());
}

constexpr std::size_t rounds_remembered = 1000;
constexpr double failed_wait_inflation = 1.25;

}  // namespace

void Engine::fold(const RunOpened& fact) {
  state_.run = fact.run;
  state_.models[fact.initial.version] = fact.initial;
  state_.latest = fact.initial.version;
  state_.round_opened_at = now_;
  arm_timer(now_);
}

void Engine::fold(const FacilityJoined& fact) {
  const auto found = state_.facilities.find(fact.facility);
  if (found != state_.facilities.end()) {
    found->second.samples = fact.samples;
    return;
  }
  state_.facilities.emplace(
      fact.facility, FacilityState{.samples = fact.samples,
                                   .waits = WaitPredictor(policy_->config().predictor_config()),
                                   .step_time = StepTime(policy_->config().alpha_compute),
                                   .overhead = StepTime(policy_->config().alpha_compute),
                                   .launch_delay = StepTime(policy_->config().alpha_compute),
                                   .participation = {},
                                   .plan = {},
                                   .assigned = {},
                                   .last_wait_s = {},
                                   .last_error = {},
                                   .attempts = {},
                                   .plan_at = now_,
                                   .contact_at = now_});
}

void Engine::fold(const PlanGiven& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  facility.plan = fact.plan;
  facility.plan_at = now_;
  facility.failed = false;
  if (!facility.participation) {
    facility.participation =
        policy_->initial_participation(known(fact.facility, facility), fact.budget_s);
  }
}

void Engine::fold(const AttemptStarted& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  AttemptState attempt;
  attempt.registration = fact.registration;
  attempt.token = fact.token;
  attempt.deadline_wait_s = fact.deadline_wait_s;
  attempt.predicted_wait_s = facility.waits.predicted_s();
  attempt.lease_until = now_ + from_seconds(config_.lease_s);
  if (facility.plan && facility.plan->key == fact.registration.plan_key) {
    attempt.plan = std::move(facility.plan);
    attempt.predicted_wait_s = attempt.plan->predicted_wait_s;
    facility.plan.reset();
    if (const auto wait_s = fact.registration.queue.queue_wait_s) {
      facility.launch_delay.observe(to_seconds(now_ - facility.plan_at) - *wait_s);
    }
  }
  facility.failed = false;
  facility.assigned = fact.registration.attempt;
  if (const auto wait_s = fact.registration.queue.queue_wait_s) {
    facility.last_wait_s = *wait_s;
    // The reference learns a wait when the update brings it.
    if (!policy_->config().is_published()) facility.waits.observe(*wait_s);
  }
  facility.attempts[fact.registration.attempt] = std::move(attempt);
}

void Engine::fold(const AttemptRelaunched& fact) {
  AttemptState& attempt = state_.facilities.at(fact.facility).attempts.at(fact.attempt);
  attempt.registration.nonce = fact.nonce;
  attempt.token = fact.token;
  attempt.steps_done = 0;
  attempt.lease_until = now_ + from_seconds(config_.lease_s);
}

void Engine::fold(const AttemptRelieved& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  facility.attempts.at(fact.attempt).phase = AttemptPhase::relieved;
  if (facility.assigned == fact.attempt) facility.assigned.reset();
}

void Engine::fold(const AttemptFenced& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  AttemptState& attempt = facility.attempts.at(fact.attempt);
  attempt.phase = AttemptPhase::fenced;
  attempt.outstanding.reset();
  if (facility.assigned == fact.attempt) facility.assigned.reset();
}

void Engine::fold(const AttemptEnded& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  const bool known_before = facility.attempts.contains(fact.attempt);
  AttemptState& attempt = facility.attempts[fact.attempt];
  attempt.phase = AttemptPhase::ended;
  attempt.end_state = fact.state;
  if (facility.assigned == fact.attempt) facility.assigned.reset();
  if (!known_before) {
    attempt.registration.attempt = fact.attempt;
    facility.plan.reset();  // its job is gone without ever having registered
  }
  if (!fact.failed) return;
  facility.failed = true;
  ++facility.jobs_failed;
  facility.last_error = "job " + fact.attempt.str() + " ended as " + fact.state +
                        (fact.detail.empty() ? "" : ": " + fact.detail);
  state_.last_error = "facility " + fact.facility.str() + ": " + facility.last_error;
  if (!policy_->config().is_published()) facility.waits.inflate(failed_wait_inflation);
}

void Engine::fold(const SegmentAssigned& fact) {
  AttemptState& attempt = state_.facilities.at(fact.facility).attempts.at(fact.attempt);
  attempt.outstanding = fact.segment;
  attempt.steps_done = 0;
}

void Engine::fold(const UpdateDecided& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  AttemptState& attempt = facility.attempts.at(fact.attempt);
  attempt.outstanding.reset();
  ++attempt.segments_done;
  attempt.last_update = fact.answer.id;
  facility.step_time.observe(fact.metadata.seconds_per_step);
  facility.overhead.observe(fact.metadata.overhead_s);
  if (policy_->config().is_published() && fact.queue_wait_s) {
    facility.waits.observe(*fact.queue_wait_s);
  }
  if (fact.answer.disposition == Disposition::rejected) {
    ++facility.updates_rejected;
    facility.failed = true;  // the round does not wait for another try
    facility.last_error = "update " + fact.answer.id.str() + " rejected: " + fact.answer.reason;
    state_.last_error = "facility " + fact.facility.str() + ": " + facility.last_error;
  } else if (fact.held_back) {
    state_.late.push_back(fact.answer.id);
  } else {
    state_.counted.push_back(fact.answer.id);
  }
  if (fact.answer.late) ++facility.updates_late;
  state_.stalled.clear();
  state_.empty_timers = 0;
  state_.decisions[fact.answer.id] = fact;
}

void Engine::fold(const RoundTimedOut& fact) {
  state_.empty_timers = fact.times;
  arm_timer(now_);
}

void Engine::fold(const ReduceStarted& fact) {
  record_round(fact);
  state_.counted.clear();
  state_.late = fact.kept_late;
  for (const auto& [id, participation] : fact.participation) {
    state_.facilities.at(FacilityId(id)).participation = participation;
  }
  state_.reducing = fact;
  state_.empty_timers = 0;
}

void Engine::record_round(const ReduceStarted& fact) {
  RoundRecord round;
  round.version = fact.input_version + 1;
  round.cause = fact.cause;
  round.open_s = to_seconds(now_ - state_.round_opened_at);
  for (auto& [id, facility] : state_.facilities) {
    RoundCell cell;
    cell.outcome = "missed";
    cell.predicted_wait_s = facility.waits.predicted_s();
    for (const ReduceInput& input : fact.updates) {
      if (input.facility != id) continue;
      const UpdateDecided& decision = state_.decisions.at(input.id);
      const AttemptState& attempt = facility.attempts.at(decision.attempt);
      cell.outcome = decision.answer.late || input.staleness > 0 ? "late" : "admitted";
      cell.queue_wait_s = decision.queue_wait_s;
      cell.predicted_wait_s = attempt.predicted_wait_s;
      cell.steps_run += decision.metadata.steps_run;
      cell.steps_assigned += decision.steps_assigned;
      cell.staleness = input.staleness;
      cell.weight += input.weight;
      cell.loss = decision.metadata.loss;
      ++facility.updates_counted;
    }
    if (cell.outcome == "missed") ++facility.rounds_missed;
    round.cells.emplace(id, std::move(cell));
  }
  state_.rounds.push_back(std::move(round));
  if (state_.rounds.size() > rounds_remembered) state_.rounds.erase(state_.rounds.begin());
}

void Engine::fold(const UpdatesDropped& fact) {
  for (const UpdateId& id : fact.ids) {
    forget(state_.counted, id);
    forget(state_.late, id);
  }
}

void Engine::fold(const ReduceStalled& fact) {
  ++state_.reduce_failures;
  state_.last_error = "round " + std::to_string(fact.input_version + 1) +
                      " could not be published: " + fact.why.message;
}

void Engine::fold(const Published& fact) {
  FEDQUEUE_ASSERT(state_.reducing && fact.model.version == state_.latest + 1);
  state_.models[fact.model.version] = fact.model;
  state_.latest = fact.model.version;
  if (fact.state) state_.server_state = fact.state;
  for (RoundRecord& round : state_.rounds) {
    if (round.version != fact.model.version) continue;
    round.published = true;
    round.step_norm = fact.step_norm;
  }
  state_.reducing.reset();
  state_.reduce_failures = 0;
  state_.reduce_retry_at.reset();
  state_.round_opened_at = now_;
  arm_timer(now_);
}

void Engine::fold(const ModelsPruned& fact) {
  std::erase_if(state_.models,
                [&](const auto& entry) { return entry.first != 0 && entry.first < fact.below; });
}

void Engine::fold(const EvaluationRecorded& fact) {
  state_.evaluations[fact.evaluation.version] = fact.evaluation;
}

void Engine::fold(const RunStalled& fact) { state_.stalled = fact.reason; }

void Engine::fold(const RunFinished& fact) {
  state_.finished = fact.reason;
  state_.timer_at.reset();
}

}  // namespace fedqueue
