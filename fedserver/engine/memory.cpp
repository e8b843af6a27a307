// What a run may forget: answers that nobody can ask for any more, jobs long gone, models that
// nothing starts from. What is forgotten follows from the facts and their times alone, so that a
// replay forgets the same.
#include <algorithm>

#include "core/base/points.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {
namespace {

// A trainer asks for the answer to its newest update alone: what came before it was answered, or
// there would be no newer one. One more is kept for requests that the network delivers late.
constexpr int answers_kept = 2;
// An agent that was away reports the ends of its jobs, and asks what became of their updates.
constexpr Duration attempts_known_for = std::chrono::hours(24);
constexpr std::size_t attempts_always_known = 4;  // of a facility, at least

}  // namespace

// Of an update that is not in flight.
void Engine::forget_answer(const UpdateId& id) {
  if (state_.in_flight.contains(id)) return;
  state_.decisions.erase(id);
  state_.follow_ups.erase(id);
}

void Engine::forget_older_answers(const FacilityId& facility, const AttemptId& id,
                                  int segments_done) {
  if (segments_done <= answers_kept || FEDQUEUE_PLANTED(answers_kept_for_ever)) return;
  forget_answer(make_update_id(facility, id, segments_done - answers_kept));
}

// An update that has left the flight is forgotten if its time was over while it flew.
void Engine::forget_landed(const UpdateId& id) {
  const Result<UpdateParts> parts = parse_update_id(id.str());
  if (!parts) return;
  const FacilityState& owner = state_.facilities.at(parts->facility);
  const auto attempt = owner.attempts.find(parts->attempt);
  if (attempt == owner.attempts.end() ||
      parts->segment <= attempt->second.segments_done - answers_kept) {
    forget_answer(id);
  }
}

// Jobs that are over, whose last update is decided and of which nothing was heard for long.
void Engine::forget_attempts(const FacilityId& id, FacilityState& facility) {
  if (facility.attempts.size() <= attempts_always_known) return;
  std::vector<std::pair<Instant, AttemptId>> over;
  for (const auto& [attempt_id, attempt] : facility.attempts) {
    if (attempt.phase == AttemptPhase::assigned || attempt.outstanding) continue;
    if (now_ - attempt.changed_at <= attempts_known_for) continue;
    over.emplace_back(attempt.changed_at, attempt_id);
  }
  std::sort(over.begin(), over.end());
  over.resize(std::min(over.size(), facility.attempts.size() - attempts_always_known));
  for (const auto& [changed_at, attempt_id] : over) {
    const int done = facility.attempts.at(attempt_id).segments_done;
    for (int segment = std::max(1, done - answers_kept + 1); segment <= done; ++segment) {
      forget_answer(make_update_id(id, attempt_id, segment));
    }
    state_.relieved.erase({id, attempt_id});
    facility.attempts.erase(attempt_id);
  }
}

void Engine::note_base(Version base, const FacilityId& facility) {
  if (config_.models_kept > 0 && base >= 0) state_.bases.emplace(base, facility);
}

// Whether a live segment or a plan of the facility starts from this version.
bool Engine::starts_from(const FacilityId& id, Version base) const {
  const FacilityState& facility = state_.facilities.at(id);
  if (facility.plan && facility.plan->base == base) return true;
  const auto holds = [&](const AttemptId& attempt_id) {
    const AttemptState& attempt = facility.attempts.at(attempt_id);
    return attempt.outstanding && attempt.outstanding->base == base;
  };
  if (facility.assigned && !FEDQUEUE_PLANTED(model_pruned_too_early) && holds(*facility.assigned)) {
    return true;
  }
  for (auto entry = state_.relieved.lower_bound({id, AttemptId()});
       entry != state_.relieved.end() && entry->first == id; ++entry) {
    if (holds(entry->second)) return true;
  }
  return false;
}

// Versions that no live segment starts from and no waiting update was trained from go; the initial
// model stays.
void Engine::prune_models() {
  if (config_.models_kept <= 0 || FEDQUEUE_PLANTED(models_kept_for_ever)) return;
  Version needed = state_.latest - config_.models_kept + 1;
  std::set<std::pair<Version, FacilityId>>& bases = state_.bases;
  while (!bases.empty() && !starts_from(bases.begin()->second, bases.begin()->first)) {
    bases.erase(bases.begin());
  }
  if (!bases.empty()) needed = std::min(needed, bases.begin()->first);
  for (const std::vector<UpdateId>* list : {&state_.counted, &state_.late}) {
    for (const UpdateId& id : *list) {
      needed = std::min(needed, state_.decisions.at(id).metadata.base);
    }
  }
  std::vector<ModelRecord> unneeded;
  for (const auto& [version, model] : state_.models) {
    if (version >= needed) break;
    if (version != 0) unneeded.push_back(model);
  }
  if (unneeded.empty()) return;
  FEDQUEUE_MARK(models_pruned);
  record(ModelsPruned{needed});
  for (ModelRecord& model : unneeded) act(RemoveModel{std::move(model)});
}

}  // namespace fedqueue
