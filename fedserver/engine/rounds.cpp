// Rounds: when one closes, what it becomes, and what happens when nothing arrives.
#include <algorithm>

#include "core/base/assert.h"
#include "core/base/points.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {
namespace {

constexpr double reduce_retry_longest_s = 60;

}  // namespace

void Engine::consider_closing(bool timer_fired) {
  if (state_.reducing || !state_.finished.empty()) return;
  if (!timer_fired && policy_->waits_for_expected() && waits_for_somebody()) return;
  const RoundState round = round_state(timer_fired);
  const CloseDecision decision = policy_->should_close(round);
  if (!decision.close) return;
  Aggregation aggregation = policy_->aggregate(round, senders(round), shares());
  policy_->limit_norms(aggregation, round);
  if (aggregation.empty()) {
    if (aggregation.dropped.empty()) return;
    UpdatesDropped fact;
    for (const DroppedUpdate& dropped : aggregation.dropped) {
      fact.ids.push_back(dropped.id);
      act(RemoveUpdate{dropped.id});
    }
    FEDQUEUE_MARK(updates_dropped);
    record(std::move(fact));
    return;
  }
  if (timer_fired) FEDQUEUE_MARK(round_closed_by_timer);
  close_round(aggregation, decision.reason);
}

void Engine::close_round(const Aggregation& aggregation, const std::string& cause) {
  ReduceStarted fact;
  fact.input_version = state_.latest;
  fact.cause = cause;
  fact.kept_late = aggregation.kept_late;
  fact.rebuild_models = aggregation.rebuild_models;
  fact.unweighted_buffers = aggregation.unweighted_buffers;
  fact.keep = aggregation.keep;
  fact.step = aggregation.step;
  fact.control_weight = aggregation.control_weight;
  if (FEDQUEUE_PLANTED(controls_by_participants) && fact.control_weight > 0)
    fact.control_weight = 1.0 / static_cast<double>(aggregation.updates.size());
  fact.state = state_.server_state;
  for (const WeightedUpdate& update : aggregation.updates) {
    fact.updates.push_back(
        {update.id, update.facility, update.base, update.staleness, update.weight});
  }
  fact.closed_groups = aggregation.closed_groups;
  const auto note_participation = [&](const KnownFacility& facility) {
    fact.participation[facility.id.str()] = policy_->participation_after(facility, aggregation);
  };
  if (policy_->one_update_per_round()) {
    for (const KnownFacility& facility : known_facilities()) note_participation(facility);
  } else {
    for (const WeightedUpdate& update : aggregation.updates) {
      note_participation(known(update.facility, state_.facilities.at(update.facility)));
    }
  }
  record(std::move(fact));
  for (const DroppedUpdate& dropped : aggregation.dropped) act(RemoveUpdate{dropped.id});
  act(start_reduce());
}

void Engine::on(const ReduceFinished& event) {
  if (!state_.reducing || event.model.version != state_.latest + 1) {  // done before
    FEDQUEUE_MARK(reduce_repeated);
    return;
  }
  std::vector<UpdateId> consumed;
  for (const ReduceInput& input : state_.reducing->updates) consumed.push_back(input.id);
  const bool regroup = !state_.reducing->closed_groups.empty();
  const std::optional<ServerState> replaced = event.state ? state_.server_state : std::nullopt;
  record(Published{event.model, event.step_norm, event.state});
  act(LinkLatest{event.model});
  if (replaced && replaced->file != event.state->file) act(RemoveState{*replaced});
  if (!FEDQUEUE_PLANTED(consumed_file_kept))
    for (const UpdateId& id : consumed) act(RemoveUpdate{id});
  drop_outdated();
  prune_models();
  if (config_.rounds_max > 0 && state_.latest >= config_.rounds_max) {
    record(RunFinished{"all " + std::to_string(config_.rounds_max) + " rounds are published"});
    return;
  }
  if (regroup) settle_members(std::move(consumed));
  consider_closing(false);  // with what arrived meanwhile
}

// What arrived during a reduction may be too old for the next one. It would count as its facility's
// part of a round that can never use it, and the facility would wait for that round for ever.
void Engine::drop_outdated() {
  if (!policy_->one_update_per_round() || FEDQUEUE_PLANTED(outdated_kept)) return;
  const std::optional<std::int64_t> cap = policy_->staleness_cap_versions(1);
  if (!cap) return;
  UpdatesDropped fact;
  for (const std::vector<UpdateId>* list : {&state_.counted, &state_.late}) {
    for (const UpdateId& id : *list) {
      if (state_.latest - state_.decisions.at(id).metadata.base > *cap) fact.ids.push_back(id);
    }
  }
  if (fact.ids.empty()) return;
  FEDQUEUE_MARK(updates_dropped);
  for (const UpdateId& id : fact.ids) act(RemoveUpdate{id});
  record(std::move(fact));
}

void Engine::on(const ReduceFailed& event) {
  if (!state_.reducing || event.version != state_.latest + 1) return;
  FEDQUEUE_MARK(reduce_failed);
  record(ReduceStalled{state_.latest, event.why});
  const double delay_s = std::min(reduce_retry_longest_s,
                                  static_cast<double>(1 << std::min(state_.reduce_failures, 6)));
  state_.reduce_retry_at = now_ + from_seconds(delay_s);
}

void Engine::retry_reduce() {
  if (!state_.reduce_retry_at || *state_.reduce_retry_at > now_ || !state_.reducing) return;
  FEDQUEUE_MARK(reduce_retried);
  state_.reduce_retry_at.reset();
  act(start_reduce());
}

void Engine::on(const StopRequested& event) {
  if (!state_.finished.empty()) return;
  record(RunFinished{event.reason.empty() ? "stopped by the operator" : event.reason});
}

void Engine::on(const Tick&) {
  if (!state_.finished.empty()) {
    FEDQUEUE_MARK(run_ended);
    return;
  }
  if (config_.run_deadline_s > 0 && now_ >= Instant(from_seconds(config_.run_deadline_s))) {
    record(RunFinished{"the run's deadline has passed"});
    return;
  }
  const std::vector<FacilityId> due = take_due();
  expire_leases(due);
  expire_handovers(due);
  retry_reduce();
  const double now_s = to_seconds(now_.time_since_epoch());
  const bool group_is_due =
      std::any_of(state_.groups.begin(), state_.groups.end(),
                  [&](const auto& entry) { return entry.second.latest_s <= now_s; });
  if (!state_.reducing && state_.timer_at && *state_.timer_at <= now_) {
    fire_timer();
  } else if (!due.empty() || group_is_due) {
    consider_closing(false);  // a wait may have passed its deadline
  }
  for (const FacilityId& id : due) note_in_agenda(id);
}

void Engine::fire_timer() {
  consider_closing(true);
  if (state_.reducing) return;
  FEDQUEUE_MARK(round_timed_out);
  record(RoundTimedOut{state_.latest, state_.empty_timers + 1});
  if (state_.empty_timers < config_.empty_timers_max || !state_.stalled.empty()) return;
  std::string reason = "round " + std::to_string(state_.latest + 1) + " has " +
                       std::to_string(state_.counted.size() + state_.late.size()) +
                       " updates after " + std::to_string(state_.empty_timers) + " timers";
  for (const auto& [id, facility] : state_.facilities) {
    reason += "; " + id.str() + " ";
    if (delivered(id)) {
      reason += "has delivered";
    } else if (facility.failed) {
      reason += "failed (" + facility.last_error + ")";
    } else if (facility.assigned) {
      reason += "trains in job " + facility.assigned->str();
    } else if (facility.plan) {
      reason += "waits in its queue";
    } else {
      reason += active(facility) ? "has no job" : "is silent";
    }
  }
  FEDQUEUE_MARK(run_stalled);
  record(RunStalled{std::move(reason)});
}

}  // namespace fedqueue
