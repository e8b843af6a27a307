// What time alone changes: a facility falls silent, a lease ends, a wait passes its deadline, a
// hand-over is over. Each facility has at most one entry in the agenda, so that a tick looks at
// those alone whose time has come.
#include <algorithm>

#include "core/base/points.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {

std::optional<Instant> Engine::next_wakeup() const {
  if (!state_.finished.empty()) return std::nullopt;
  std::optional<Instant> next;
  const auto at = [&](Instant instant) {
    if (instant <= now_) instant = now_ + std::chrono::milliseconds(1);
    next = next ? std::min(*next, instant) : instant;
  };
  if (state_.timer_at && !state_.reducing) at(*state_.timer_at);
  if (state_.reduce_retry_at) at(*state_.reduce_retry_at);
  if (config_.run_deadline_s > 0) at(Instant(from_seconds(config_.run_deadline_s)));
  for (const auto& [id, group] : state_.groups) {
    const Instant latest(from_seconds(group.latest_s));
    if (latest > now_) at(latest);
  }
  if (!state_.agenda.empty()) at(state_.agenda.begin()->first);
  return next;
}

// A lease and a hand-over stay due until they are ended; the others are but passed.
std::optional<Instant> Engine::next_change(const FacilityId& id,
                                           const FacilityState& facility) const {
  std::optional<Instant> next;
  const auto at = [&](Instant instant) { next = next ? std::min(*next, instant) : instant; };
  if (facility.assigned) at(facility.attempts.at(*facility.assigned).lease_until);
  if (facility.plan && excused_from(facility) > now_) at(excused_from(facility));
  if (silent_from(facility) > now_) at(silent_from(facility));
  for (auto entry = state_.relieved.lower_bound({id, AttemptId()});
       entry != state_.relieved.end() && entry->first == id; ++entry) {
    at(facility.attempts.at(entry->second).deliver_until);
  }
  return next;
}

void Engine::note_in_agenda(const FacilityId& id) {
  const auto found = state_.facilities.find(id);
  if (found == state_.facilities.end()) return;
  FacilityState& facility = found->second;
  if (facility.look_at && *facility.look_at <= now_) return;  // the next tick looks at it
  const std::optional<Instant> next = next_change(id, facility);
  if (next == facility.look_at) return;
  if (facility.look_at) state_.agenda.erase({*facility.look_at, id});
  if (next) state_.agenda.emplace(*next, id);
  facility.look_at = next;
}

// Those whose time has come, by name.
std::vector<FacilityId> Engine::take_due() {
  std::vector<FacilityId> due;
  while (!state_.agenda.empty() && state_.agenda.begin()->first <= now_) {
    due.push_back(state_.agenda.begin()->second);
    state_.agenda.erase(state_.agenda.begin());
  }
  std::sort(due.begin(), due.end());
  for (const FacilityId& id : due) {
    FacilityState& facility = state_.facilities.at(id);
    facility.look_at.reset();
    count_if_active(facility);
  }
  return due;
}

void Engine::count_if_active(FacilityState& facility) {
  const bool counts = !facility.failed && active(facility);
  if (counts == facility.counts_as_active) return;
  facility.counts_as_active = counts;
  state_.active += counts ? 1 : -1;
}

// When the wait of its planned job will have passed its deadline. REQUIRES: a plan.
Instant Engine::excused_from(const FacilityState& facility) const {
  const double waited_s =
      facility.plan->deadline_wait_s + facility.launch_delay.seconds().value_or(0);
  return facility.plan_at + from_seconds(waited_s) + std::chrono::milliseconds(1);
}

Instant Engine::silent_from(const FacilityState& facility) const {
  return facility.contact_at + from_seconds(contact_timeout_s()) + std::chrono::milliseconds(1);
}

bool Engine::active(const FacilityState& facility) const {
  return now_ - facility.contact_at <= from_seconds(contact_timeout_s());
}

double Engine::contact_timeout_s() const {
  return config_.contact_timeout_s > 0 ? config_.contact_timeout_s : 3 * config_.policy.t_sync_s;
}

void Engine::expire_leases(const std::vector<FacilityId>& due) {
  for (const FacilityId& id : due) {
    const FacilityState& owner = state_.facilities.at(id);
    if (!owner.assigned) continue;
    const AttemptId attempt_id = *owner.assigned;
    if (owner.attempts.at(attempt_id).lease_until > now_) continue;
    if (FEDQUEUE_PLANTED(lease_never_ends)) continue;
    FEDQUEUE_MARK(lease_expired);
    end_attempt(id, attempt_id, "LOST",
                "no heartbeat for " + std::to_string(static_cast<int>(config_.lease_s)) + " s");
  }
}

// A job that handed over had its grace; one that delivered may take its time to leave.
void Engine::expire_handovers(const std::vector<FacilityId>& due) {
  for (const FacilityId& id : due) {
    std::vector<AttemptId> over;
    for (auto entry = state_.relieved.lower_bound({id, AttemptId()});
         entry != state_.relieved.end() && entry->first == id; ++entry) {
      const AttemptState& attempt = state_.facilities.at(id).attempts.at(entry->second);
      if (attempt.deliver_until <= now_) over.push_back(entry->second);
    }
    for (const AttemptId& attempt_id : over) {
      if (state_.facilities.at(id).attempts.at(attempt_id).outstanding) {
        record(AttemptFenced{id, attempt_id, "it did not deliver in time after its hand-over"});
      }
      state_.relieved.erase({id, attempt_id});
    }
  }
}

}  // namespace fedqueue
