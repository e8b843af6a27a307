#include "fedserver/engine/engine.h"

#include <algorithm>

#include "core/base/assert.h"
#include "core/base/points.h"

namespace fedqueue {
namespace {

double median_of(const std::deque<double>& values) {
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace

const char* to_text(AttemptPhase phase) {
  switch (phase) {
    case AttemptPhase::assigned:
      return "assigned";
    case AttemptPhase::relieved:
      return "relieved";
    case AttemptPhase::fenced:
      return "fenced";
    case AttemptPhase::ended:
      return "ended";
  }
  return "ended";
}

FilesInUse files_in_use(const RunState& state) {
  FilesInUse files;
  files.updates.insert(state.counted.begin(), state.counted.end());
  files.updates.insert(state.late.begin(), state.late.end());
  if (state.reducing) {
    for (const ReduceInput& input : state.reducing->updates) files.updates.insert(input.id);
  }
  for (const auto& [version, model] : state.models) files.models.insert(model.file);
  if (state.server_state) files.models.insert(state.server_state->file);
  return files;
}

Engine::Engine(EngineConfig config)
    : config_(std::move(config)), policy_(make_policy(config_.policy)) {}

Step Engine::step(const Event& event, Instant now) {
  FEDQUEUE_ASSERT(now >= now_);
  Step step;
  step.answer = Accepted{};
  current_ = &step;
  now_ = now;
  std::visit([this](const auto& value) { on(value); }, event);
  current_ = nullptr;
  const auto note = [this](const auto& value) {
    if constexpr (requires { value.facility; }) note_in_agenda(value.facility);
  };
  std::visit(note, event);
  for (const Fact& fact : step.facts) std::visit(note, fact);
  check_invariants(step);
  return step;
}

void Engine::apply(const Fact& fact, Instant at) {
  now_ = std::max(now_, at);
  std::visit([this](const auto& value) { fold(value); }, fact);
}

void Engine::resumed(Instant now) {
  now_ = std::max(now_, now);
  state_.agenda.clear();
  state_.active = 0;
  for (auto& [id, facility] : state_.facilities) {
    facility.contact_at = now_;
    facility.counts_as_active = false;
    facility.look_at.reset();
    count_if_active(facility);
    for (auto& [attempt_id, attempt] : facility.attempts) {
      attempt.lease_until = now_ + from_seconds(config_.lease_s);
      attempt.deliver_until = now_ + from_seconds(policy_->config().handover_grace_s);
    }
    note_in_agenda(id);
  }
  // A round whose timer ran out just before the server went down gets the same grace.
  if (state_.timer_at) {
    state_.timer_at = std::max(*state_.timer_at, now_ + from_seconds(config_.heartbeat_s));
  }
}

std::vector<Action> Engine::pending() const {
  std::vector<Action> actions;
  if (state_.models.contains(state_.latest)) {
    actions.push_back(LinkLatest{state_.models.at(state_.latest)});
  }
  if (state_.reducing && !FEDQUEUE_PLANTED(reduction_forgotten)) {
    FEDQUEUE_MARK(driver_owed_reduction);
    actions.push_back(start_reduce());
  }
  return actions;
}

void Engine::record(Fact fact) {
  FEDQUEUE_ASSERT(current_ != nullptr);
  apply(fact, now_);
  current_->facts.push_back(std::move(fact));
}

void Engine::act(Action action) { current_->actions.push_back(std::move(action)); }

void Engine::answer(Answer answer) { current_->answer = std::move(answer); }

FacilityState* Engine::facility(const FacilityId& id) {
  const auto found = state_.facilities.find(id);
  if (found == state_.facilities.end()) return nullptr;
  found->second.contact_at = now_;
  count_if_active(found->second);
  return &found->second;
}

AttemptState* Engine::attempt(const FacilityId& facility_id, const AttemptId& id) {
  FacilityState* owner = facility(facility_id);
  if (owner == nullptr) return nullptr;
  const auto found = owner->attempts.find(id);
  return found == owner->attempts.end() ? nullptr : &found->second;
}

bool Engine::delivered(const FacilityId& id) const { return state_.waiting_updates.contains(id); }

KnownFacility Engine::known(const FacilityId& id, const FacilityState& facility) const {
  KnownFacility view;
  view.id = id;
  view.samples = facility.samples;
  view.predicted_wait_s = facility.waits.predicted_s();
  view.step_seconds = facility.step_time.seconds();
  view.overhead_s = facility.overhead.seconds().value_or(0);
  view.participation = facility.participation.value_or(1);
  view.sync_seconds = facility.sync_time.seconds();
  view.pace_s = facility.pace.seconds();
  if (const auto window_s = state_.turnaround.seconds(); window_s && facility.participation_at) {
    view.windows_since_counted = to_seconds(now_ - *facility.participation_at) / *window_s;
  }
  view.active = active(facility) && !facility.failed;
  return view;
}

std::vector<KnownFacility> Engine::known_facilities() const {
  std::vector<KnownFacility> all;
  for (const auto& [id, facility] : state_.facilities) all.push_back(known(id, facility));
  return all;
}

// Those with an update in the round.
std::vector<KnownFacility> Engine::senders(const RoundState& round) const {
  std::set<FacilityId> names;
  for (const std::vector<Arrival>* list : {&round.counted, &round.late}) {
    for (const Arrival& arrival : *list) names.insert(arrival.facility);
  }
  std::vector<KnownFacility> all;
  for (const FacilityId& id : names) all.push_back(known(id, state_.facilities.at(id)));
  return all;
}

const Shares& Engine::shares() const {
  if (!shares_) {
    std::vector<Enrolment> enrolled;
    for (const auto& [id, facility] : state_.facilities) enrolled.push_back({id, facility.samples});
    shares_ = policy_->shares(enrolled);
  }
  return *shares_;
}

Arrival Engine::arrival_of(const UpdateDecided& decision) const {
  Arrival arrival;
  arrival.id = decision.answer.id;
  arrival.facility = decision.facility;
  arrival.base = decision.metadata.base;
  arrival.staleness = state_.latest - decision.metadata.base;
  if (FEDQUEUE_PLANTED(age_forgotten)) arrival.base = state_.latest;
  arrival.steps_assigned = decision.steps_assigned;
  arrival.steps_run = decision.metadata.steps_run;
  arrival.norm = decision.norm;
  arrival.queue_wait_s = decision.queue_wait_s;
  arrival.deadline_wait_s = decision.deadline_wait_s;
  arrival.arrived_in = decision.arrived_in;
  arrival.stored_s = decision.stored_s;
  arrival.place = decision.place;
  return arrival;
}

RoundState Engine::bare_round() const {
  RoundState round;
  round.version = state_.latest;
  round.now_s = to_seconds(now_.time_since_epoch());
  round.groups = groups();
  round.enrolled = state_.active;
  return round;
}

RoundState Engine::round_state(bool timer_fired) const {
  RoundState round = bare_round();
  round.timer_fired = timer_fired;
  if (*policy_->config().norm_factor_max > 0 && state_.norms_per_step.size() >= norms_needed)
    round.usual_norm_per_step = median_of(state_.norms_per_step);
  for (const UpdateId& id : state_.counted) {
    round.counted.push_back(arrival_of(state_.decisions.at(id)));
  }
  for (const UpdateId& id : state_.late) {
    round.late.push_back(arrival_of(state_.decisions.at(id)));
  }
  if (!policy_->one_update_per_round()) return round;
  for (const auto& [id, facility] : state_.facilities) {
    if (outstanding(id, facility)) round.outstanding.push_back(id);
  }
  return round;
}

// The round as far as it matters to an update of one facility: what others have sent does not.
RoundState Engine::round_for(const FacilityId& id) const {
  return delivered(id) ? round_state(false) : bare_round();
}

bool Engine::outstanding(const FacilityId& id, const FacilityState& facility) const {
  if (facility.failed || !active(facility) || delivered(id)) return false;
  double waited_s = 0;
  double deadline_s = 0;
  if (facility.assigned) {
    const AttemptState& attempt = facility.attempts.at(*facility.assigned);
    waited_s = attempt.registration.queue.queue_wait_s.value_or(0);
    deadline_s = attempt.deadline_wait_s;
  } else if (facility.plan) {
    waited_s = std::max(
        0.0, to_seconds(now_ - facility.plan_at) - facility.launch_delay.seconds().value_or(0));
    deadline_s = facility.plan->deadline_wait_s;
  }
  return policy_->expects(waited_s, deadline_s);
}

// Whether the round waits for somebody, without making a list of all: the one that was found last
// time is mostly still missing.
bool Engine::waits_for_somebody() const {
  const auto& all = state_.facilities;
  auto at = awaited_ ? all.lower_bound(*awaited_) : all.begin();
  // Once round, from there: those before it were in when it was found, and mostly still are.
  for (std::size_t seen = 0; seen < all.size(); ++seen, ++at) {
    if (at == all.end()) at = all.begin();
    if (!outstanding(at->first, at->second)) continue;
    awaited_ = at->first;
    return true;
  }
  awaited_.reset();
  return false;
}

void Engine::set_failed(FacilityState& facility, bool failed) {
  if (facility.failed == failed) return;
  facility.failed = failed;
  count_if_active(facility);
}

std::vector<KnownFacility> Engine::others_for_plan() const {
  return policy_->plans_by_others() ? known_facilities() : std::vector<KnownFacility>{};
}

std::vector<Group> Engine::groups() const {
  std::vector<Group> all;
  for (const auto& [id, group] : state_.groups) {
    all.push_back({id, group.expected_s, group.latest_s, group.fastest_pace_s,
                   static_cast<std::int64_t>(group.missing.size())});
  }
  return all;
}

double Engine::answer_retry_s(const GroupPlace& place) const {
  if (!policy_->publishes_on_arrival()) return plan_retry_s();
  // The update alone makes a version, so the answer is there when that is made.
  const double publish_s = std::clamp(state_.publish_time.seconds().value_or(0.05), 0.02, 1.0);
  if (place.group < 0) return publish_s;
  const double left_s = place.latest_s - to_seconds(now_.time_since_epoch());
  return std::max(publish_s, std::min(1.0, left_s / 10));
}

double Engine::plan_retry_s() const {
  if (config_.plan_retry_s > 0) return config_.plan_retry_s;
  return std::clamp(config_.policy.t_sync_s / 20, 0.5, 60.0);
}

void Engine::arm_timer(Instant from) {
  const std::optional<double> timer_s = policy_->round_timer_s();
  state_.timer_at = timer_s ? std::optional(from + from_seconds(*timer_s)) : std::nullopt;
}

StartReduce Engine::start_reduce() const {
  StartReduce action;
  action.plan = *state_.reducing;
  action.current = state_.models.at(action.plan.input_version);
  if (action.plan.rebuild_models) {
    for (const ReduceInput& input : action.plan.updates) {
      action.bases[input.base] = state_.models.at(input.base);
    }
  }
  return action;
}

// Only what this step can have changed: sizes, and the facilities its facts are about.
void Engine::check_invariants(const Step& step) const {
  if (step.facts.empty()) return;
  std::size_t held = state_.counted.size() + state_.late.size();
  if (state_.reducing) {
    FEDQUEUE_ASSERT(state_.reducing->input_version == state_.latest);
    held += state_.reducing->updates.size();
  }
  // in_flight is a set, so an update that is held twice makes the numbers differ.
  FEDQUEUE_ASSERT(held == state_.in_flight.size());
  const auto check_facility = [this](const FacilityId& id) {
    const FacilityState& owner = state_.facilities.at(id);
    if (!owner.assigned) return;
    FEDQUEUE_ASSERT(owner.attempts.at(*owner.assigned).phase == AttemptPhase::assigned);
  };
  for (const Fact& fact : step.facts) {
    std::visit(
        [&](const auto& value) {
          if constexpr (requires { value.facility; }) check_facility(value.facility);
        },
        fact);
  }
}

}  // namespace fedqueue
