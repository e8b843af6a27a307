// Folding facts into the state: what happened is written down and nothing is decided.
#include <algorithm>

#include "core/base/assert.h"
#include "core/base/points.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {
namespace {

void forget(std::vector<UpdateId>& list, const UpdateId& id) {
  list.erase(std::remove(list.begin(), list.end(), id), list.end());
}

constexpr std::size_t rounds_remembered = 1000;
constexpr std::size_t cells_remembered = 100'000;  // in all rounds together
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
    shares_.reset();
    return;
  }
  state_.facilities.emplace(
      fact.facility, FacilityState{.samples = fact.samples,
                                   .waits = WaitPredictor(policy_->config().predictor_config()),
                                   .step_time = StepTime(policy_->config().alpha_compute),
                                   .overhead = StepTime(policy_->config().alpha_compute),
                                   .launch_delay = StepTime(policy_->config().alpha_compute),
                                   .sync_time = StepTime(policy_->config().alpha_compute),
                                   .pace = StepTime(policy_->config().speed_momentum),
                                   .participation = {},
                                   .plan = {},
                                   .plan_place = {},
                                   .assigned = {},
                                   .last_wait_s = {},
                                   .last_error = {},
                                   .attempts = {},
                                   .plan_at = now_,
                                   .contact_at = now_,
                                   .look_at = {}});
  shares_.reset();
  count_if_active(state_.facilities.at(fact.facility));
}

void Engine::fold(const PlanGiven& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  facility.plan = fact.plan;
  facility.plan_place = fact.place;
  facility.plan_at = now_;
  note_base(fact.plan.base, fact.facility);
  join_group(fact.facility, fact.place);
  set_failed(facility, false);
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
  attempt.started_at = now_;
  attempt.assigned_at = now_;
  attempt.changed_at = now_;
  attempt.lease_until = now_ + from_seconds(config_.lease_s);
  if (facility.plan && facility.plan->key == fact.registration.plan_key) {
    attempt.plan = std::move(facility.plan);
    attempt.predicted_wait_s = attempt.plan->predicted_wait_s;
    facility.plan.reset();
    attempt.place = facility.plan_place;
    attempt.assigned_at = facility.plan_at;
    facility.plan_place = {};
    if (const auto wait_s = fact.registration.queue.queue_wait_s) {
      facility.launch_delay.observe(to_seconds(now_ - facility.plan_at) - *wait_s);
    }
  }
  set_failed(facility, false);
  facility.assigned = fact.registration.attempt;
  if (const auto wait_s = fact.registration.queue.queue_wait_s) {
    facility.last_wait_s = *wait_s;
    // The reference learns a wait when the update brings it.
    if (!policy_->config().is_published()) facility.waits.observe(*wait_s);
  }
  facility.attempts[fact.registration.attempt] = std::move(attempt);
  forget_attempts(fact.facility, facility);
}

void Engine::fold(const AttemptRelaunched& fact) {
  AttemptState& attempt = state_.facilities.at(fact.facility).attempts.at(fact.attempt);
  attempt.changed_at = now_;
  attempt.registration.nonce = fact.nonce;
  attempt.token = fact.token;
  attempt.steps_done = 0;
  attempt.lease_until = now_ + from_seconds(config_.lease_s);
}

void Engine::fold(const AttemptRelieved& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  AttemptState& attempt = facility.attempts.at(fact.attempt);
  attempt.changed_at = now_;
  attempt.phase = AttemptPhase::relieved;
  attempt.deliver_until = now_ + from_seconds(policy_->config().handover_grace_s);
  state_.relieved.emplace(fact.facility, fact.attempt);
  if (facility.assigned == fact.attempt) facility.assigned.reset();
}

void Engine::fold(const AttemptFenced& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  AttemptState& attempt = facility.attempts.at(fact.attempt);
  attempt.changed_at = now_;
  attempt.phase = AttemptPhase::fenced;
  attempt.outstanding.reset();
  state_.relieved.erase({fact.facility, fact.attempt});
  if (facility.assigned == fact.attempt) facility.assigned.reset();
}

void Engine::fold(const AttemptEnded& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  const bool known_before = facility.attempts.contains(fact.attempt);
  AttemptState& attempt = facility.attempts[fact.attempt];
  attempt.changed_at = now_;
  attempt.phase = AttemptPhase::ended;
  state_.relieved.erase({fact.facility, fact.attempt});
  attempt.end_state = fact.state;
  if (facility.assigned == fact.attempt) facility.assigned.reset();
  if (!known_before) {
    attempt.registration.attempt = fact.attempt;
    facility.plan.reset();  // its job is gone without ever having registered
    forget_attempts(fact.facility, facility);
  }
  if (!fact.failed) return;
  leave_groups(fact.facility);
  set_failed(facility, true);
  ++facility.jobs_failed;
  facility.last_error = "job " + fact.attempt.str() + " ended as " + fact.state +
                        (fact.detail.empty() ? "" : ": " + fact.detail);
  state_.last_error = "facility " + fact.facility.str() + ": " + facility.last_error;
  if (!policy_->config().is_published()) facility.waits.inflate(failed_wait_inflation);
}

void Engine::fold(const SegmentAssigned& fact) {
  AttemptState& attempt = state_.facilities.at(fact.facility).attempts.at(fact.attempt);
  attempt.changed_at = now_;
  attempt.outstanding = fact.segment;
  note_base(fact.segment.base, fact.facility);
  attempt.place = fact.place;
  if (attempt.segments_done > 0) attempt.assigned_at = now_;
  attempt.steps_done = 0;
  join_group(fact.facility, fact.place);
}

void Engine::join_group(const FacilityId& id, const GroupPlace& place) {
  if (place.group < 0) return;
  const double now_s = to_seconds(now_.time_since_epoch());
  std::erase_if(state_.groups, [&](const auto& entry) { return entry.second.latest_s <= now_s; });
  state_.next_group = std::max(state_.next_group, place.group + 1);
  if (place.latest_s <= now_s) return;  // its job waited too long: it will be late
  GroupState& group = state_.groups[place.group];
  group.expected_s = place.expected_s;
  group.latest_s = place.latest_s;
  group.missing.insert(id);
  const double pace_s = state_.facilities.at(id).pace.seconds().value_or(0);
  if (pace_s > 0 && (group.fastest_pace_s == 0 || pace_s < group.fastest_pace_s)) {
    group.fastest_pace_s = pace_s;
  }
}

void Engine::leave_groups(const FacilityId& id) {
  for (auto& [number, group] : state_.groups) group.missing.erase(id);
}

void Engine::fold(const NextDecided& fact) { state_.follow_ups[fact.update] = fact.next; }

void Engine::fold(const UpdateDecided& fact) {
  FacilityState& facility = state_.facilities.at(fact.facility);
  AttemptState& attempt = facility.attempts.at(fact.attempt);
  attempt.outstanding.reset();
  ++attempt.segments_done;
  attempt.last_update = fact.answer.id;
  if (attempt.decided_at) {
    const double turnaround_s = to_seconds(now_ - *attempt.decided_at);
    state_.turnaround.observe(turnaround_s);
    const double trained_s =
        fact.metadata.train_seconds > 0
            ? fact.metadata.train_seconds
            : fact.metadata.seconds_per_step * static_cast<double>(fact.metadata.steps_run);
    if (trained_s > 0) facility.sync_time.observe(turnaround_s - trained_s);
  }
  attempt.decided_at = now_;
  attempt.changed_at = now_;
  if (fact.metadata.steps_run > 0) {
    facility.pace.observe(to_seconds(now_ - attempt.assigned_at) /
                          static_cast<double>(fact.metadata.steps_run));
  }
  const auto group = state_.groups.find(fact.place.group);
  if (group != state_.groups.end()) group->second.missing.erase(fact.facility);
  facility.step_time.observe(fact.metadata.seconds_per_step);
  facility.overhead.observe(fact.metadata.overhead_s);
  if (policy_->config().is_published() && fact.queue_wait_s) {
    facility.waits.observe(*fact.queue_wait_s);
  }
  if (fact.answer.disposition == Disposition::rejected) {
    ++facility.updates_rejected;
    set_failed(facility, true);  // the round does not wait for another try
    facility.last_error = "update " + fact.answer.id.str() + " rejected: " + fact.answer.reason;
    state_.last_error = "facility " + fact.facility.str() + ": " + facility.last_error;
  } else if (fact.held_back) {
    state_.late.push_back(fact.answer.id);
  } else {
    state_.counted.push_back(fact.answer.id);
  }
  if (fact.answer.disposition != Disposition::rejected) {
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, fact.metadata.steps_run));
    state_.norms_per_step.push_back(fact.norm / steps);
    if (state_.norms_per_step.size() > norms_remembered) state_.norms_per_step.pop_front();
    state_.in_flight.insert(fact.answer.id);
    ++state_.waiting_updates[fact.facility];
  }
  if (fact.answer.late) ++facility.updates_late;
  state_.stalled.clear();
  state_.empty_timers = 0;
  state_.decisions[fact.answer.id] = fact;
  forget_older_answers(fact.facility, fact.attempt, attempt.segments_done);
}

void Engine::fold(const RoundTimedOut& fact) {
  state_.empty_timers = fact.times;
  if (FEDQUEUE_PLANTED(timer_not_armed_again)) {
    state_.timer_at.reset();
    return;
  }
  arm_timer(now_);
}

void Engine::fold(const ReduceStarted& fact) {
  record_round(fact);
  if (!FEDQUEUE_PLANTED(counts_twice)) state_.counted.clear();
  state_.late = fact.kept_late;
  for (const auto& [id, participation] : fact.participation) {
    FacilityState& facility = state_.facilities.at(FacilityId(id));
    facility.participation = participation;
    facility.participation_at = now_;
  }
  for (const std::int64_t group : fact.closed_groups) state_.groups.erase(group);
  state_.reducing = fact;
  state_.reducing_since = now_;
  std::set<UpdateId> landed = {state_.late.begin(), state_.late.end()};
  for (const ReduceInput& input : fact.updates) landed.insert(input.id);
  landed.swap(state_.in_flight);
  set_waiting_updates();
  if (landed.size() > state_.in_flight.size()) {  // some were dropped
    for (const UpdateId& id : landed) forget_landed(id);
  }
  state_.empty_timers = 0;
}

void Engine::set_waiting_updates() {
  state_.waiting_updates.clear();
  for (const std::vector<UpdateId>* list : {&state_.counted, &state_.late}) {
    for (const UpdateId& id : *list) ++state_.waiting_updates[state_.decisions.at(id).facility];
  }
}

void Engine::record_round(const ReduceStarted& fact) {
  RoundRecord round;
  round.version = fact.input_version + 1;
  round.cause = fact.cause;
  round.open_s = to_seconds(now_ - state_.round_opened_at);
  for (const ReduceInput& input : fact.updates) {
    FacilityState& facility = state_.facilities.at(input.facility);
    const UpdateDecided& decision = state_.decisions.at(input.id);
    RoundCell& cell = round.cells[input.facility];
    // Where facilities are not bound to rounds, some versions behind is the rule and not late.
    const bool behind = policy_->one_update_per_round() && input.staleness > 0;
    cell.outcome = decision.answer.late || behind ? "late" : "admitted";
    cell.queue_wait_s = decision.queue_wait_s;
    const auto attempt = facility.attempts.find(decision.attempt);
    if (attempt != facility.attempts.end()) {
      cell.predicted_wait_s = attempt->second.predicted_wait_s;
    }
    cell.steps_run += decision.metadata.steps_run;
    cell.steps_assigned += decision.steps_assigned;
    cell.staleness = input.staleness;
    cell.weight += input.weight;
    cell.loss = decision.metadata.loss;
    ++facility.updates_counted;
  }
  if (policy_->one_update_per_round()) {
    for (auto& [id, facility] : state_.facilities) {
      RoundCell& cell = round.cells[id];
      if (!cell.outcome.empty()) continue;
      cell.outcome = "missed";
      cell.predicted_wait_s = facility.waits.predicted_s();
      ++facility.rounds_missed;
    }
  }
  state_.cells += round.cells.size();
  state_.rounds.push_back(std::move(round));
  while (state_.rounds.size() > rounds_remembered ||
         (state_.rounds.size() > 1 && state_.cells > cells_remembered)) {
    state_.cells -= state_.rounds.front().cells.size();
    state_.rounds.pop_front();
  }
}

void Engine::fold(const UpdatesDropped& fact) {
  for (const UpdateId& id : fact.ids) {
    forget(state_.counted, id);
    forget(state_.late, id);
    state_.in_flight.erase(id);
    forget_landed(id);
  }
  set_waiting_updates();
}

void Engine::fold(const ReduceStalled& fact) {
  ++state_.reduce_failures;
  state_.last_error = "round " + std::to_string(fact.input_version + 1) +
                      " could not be published: " + fact.why.message;
}

void Engine::fold(const Published& fact) {
  FEDQUEUE_ASSERT(state_.reducing && fact.model.version == state_.latest + 1);
  for (const ReduceInput& input : state_.reducing->updates) {
    state_.in_flight.erase(input.id);
    forget_landed(input.id);
  }
  state_.publish_time.observe(to_seconds(now_ - state_.reducing_since));
  state_.models[fact.model.version] = fact.model;
  state_.latest = fact.model.version;
  if (fact.state) state_.server_state = fact.state;
  const auto round =
      std::find_if(state_.rounds.rbegin(), state_.rounds.rend(),
                   [&](const RoundRecord& record) { return record.version <= fact.model.version; });
  if (round != state_.rounds.rend() && round->version == fact.model.version) {
    round->published = true;
    round->step_norm = fact.step_norm;
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
  state_.bases.erase(state_.bases.begin(), state_.bases.lower_bound({fact.below, FacilityId()}));
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
