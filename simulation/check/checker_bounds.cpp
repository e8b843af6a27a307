// What a server holds must not grow with the length of a run, but for its journal and for parts of
// uploads that nobody went on with.
#include <algorithm>

#include "simulation/check/checker.h"

namespace fedqueue::simulation {
namespace {

// A reduction and its repetition may end while the queue is full.
constexpr std::size_t completions_most = 2;
// Of an attempt: the newest, and one more for requests that come late.
constexpr std::size_t answers_most = 2;
constexpr std::size_t rounds_listed_most = 1000;

void add(std::set<UpdateId>& all, const std::vector<UpdateId>& some) {
  all.insert(some.begin(), some.end());
}

}  // namespace

void Checker::on_load(const ServerLoad& load, const Engine& engine, const SimulatedDisk& disk) {
  catch_up();
  const RunState& state = engine.state();
  if (load.events > scenario_.queue_max + completions_most) {
    violation(std::to_string(load.events) + " events are queued, and at most " +
              std::to_string(scenario_.queue_max) + " may be");
  }
  if (load.writers > load.uploads) {
    violation(std::to_string(load.writers) + " uploads are promised room, and " +
              std::to_string(load.uploads) + " are under way");
  }
  check_lists(state, engine);
  check_left_over(load, state, disk);
  latest_before_turn_ = state.latest;
  needed_before_turn_ = oldest_needed(state);
}

// The lists of the engine: what waits is listed once, and only while it waits.
void Checker::check_lists(const RunState& state, const Engine& engine) {
  std::set<UpdateId> waiting;
  add(waiting, state.counted);
  add(waiting, state.late);
  std::size_t listed = state.counted.size() + state.late.size();
  std::map<FacilityId, int> by_facility;
  std::map<AttemptKey, int> by_attempt;
  for (const UpdateId& id : waiting) {
    const UpdateDecided& decision = state.decisions.at(id);
    ++by_facility[decision.facility];
    ++by_attempt[{decision.facility, decision.attempt}];
  }
  if (state.reducing) {
    listed += state.reducing->updates.size();
    for (const ReduceInput& input : state.reducing->updates) waiting.insert(input.id);
  }
  if (listed != waiting.size()) violation("an update waits in two places");
  if (state.in_flight != waiting) {
    violation(std::to_string(state.in_flight.size()) + " updates are kept, and " +
              std::to_string(waiting.size()) + " wait to be counted");
  }
  if (by_facility != state.waiting_updates) {
    violation("the updates of each facility that wait are miscounted");
  }
  if (engine.policy().one_update_per_round()) {
    for (const auto& [key, count] : by_attempt) {
      if (count > 2) {  // one for this round, one that came too late for the last
        violation("attempt " + key.second.str() + " of " + key.first.str() + " has " +
                  std::to_string(count) + " updates in one round");
      }
    }
  }
  check_answers(state);
  for (const auto& [id, attempt_id] : state.relieved) {
    if (state.facilities.at(id).attempts.at(attempt_id).phase != AttemptPhase::relieved) {
      violation("attempt " + attempt_id.str() + " of " + id.str() + " is not relieved any more");
    }
  }
  if (state.rounds.size() > rounds_listed_most) violation("the table of rounds has no end");
}

// Answers are remembered while their update is in flight, and the newest of every known attempt.
void Checker::check_answers(const RunState& state) {
  if (state.decisions.size() == answers_checked_) return;
  answers_checked_ = state.decisions.size();
  std::map<AttemptKey, std::size_t> landed;
  for (const auto& [id, decision] : state.decisions) {
    if (state.in_flight.contains(id)) continue;
    const AttemptKey key{decision.facility, decision.attempt};
    if (!state.facilities.at(key.first).attempts.contains(key.second)) {
      violation("the answer to update " + id.str() + " outlives its attempt");
    } else if (++landed[key] == answers_most + 1) {
      violation("more than " + std::to_string(answers_most) + " answers to attempt " +
                key.second.str() + " of " + key.first.str() + " are remembered");
    }
  }
  for (const auto& [id, next] : state.follow_ups) {
    if (!state.decisions.contains(id)) {
      violation("what follows update " + id.str() + " outlives its answer");
    }
  }
}

// The oldest version that somebody still trains from, or was trained from and not yet counted, or
// that the operator wants to keep.
Version Checker::oldest_needed(const RunState& state) const {
  Version needed = state.latest - scenario_.engine.models_kept + 1;
  const auto need = [&](Version version) { needed = std::min(needed, version); };
  for (const auto& [id, facility] : state.facilities) {
    if (facility.plan && facility.plan->base >= 0) need(facility.plan->base);
    for (const auto& [attempt_id, attempt] : facility.attempts) {
      const bool may_deliver =
          attempt.phase == AttemptPhase::assigned || attempt.phase == AttemptPhase::relieved;
      if (may_deliver && attempt.outstanding) need(attempt.outstanding->base);
    }
  }
  for (const UpdateId& id : state.in_flight) need(state.decisions.at(id).metadata.base);
  return needed;
}

// After a turn that published: what was not needed before it is gone.
void Checker::check_models(const RunState& state) {
  if (scenario_.engine.models_kept <= 0 || state.latest <= latest_before_turn_) return;
  for (const auto& [version, model] : state.models) {
    if (version == 0 || version >= needed_before_turn_) continue;
    return violation("version " + std::to_string(version) +
                     " is kept, and nobody needs one below " + std::to_string(needed_before_turn_));
  }
}

// Files that nothing refers to. A disk that refuses to remove them is not to blame on the server.
void Checker::check_left_over(const ServerLoad& load, const RunState& state,
                              const SimulatedDisk& disk) {
  if (load.uploads > 0 || load.actions > 0 || scenario_.rates.disk_fails > 0) return;
  const FilesInUse files = files_in_use(state);
  for (const std::string& name : disk.names("/server/updates")) {
    const UpdateId id(name.substr(0, name.find(".safetensors")));
    if (!files.updates.contains(id)) {
      return violation("the file of update " + id.str() + " is kept, and nothing refers to it");
    }
  }
  if (state.reducing) return;  // what is being made, or is made and not yet published
  for (const std::string& name : disk.names("/server/models")) {
    if (!files.models.contains(name)) {
      return violation("models/" + name + " is kept, and nothing refers to it");
    }
  }
}

// The word of the server on an update, as it came to its facility.
void Checker::settled(const FacilityId& facility, const UpdateId& id, Disposition disposition) {
  if (disposition == Disposition::rejected) return;
  const auto decision = decisions_.find(id);
  if (decision == decisions_.end() || decision->second.answer.disposition != disposition) {
    violation("facility " + facility.str() + " takes update " + id.str() + " for " +
              to_text(disposition) + ", and the journal says otherwise");
  }
}

}  // namespace fedqueue::simulation
