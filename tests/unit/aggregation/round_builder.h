// Short ways to say what arrived in a round, for the tests of policies.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "aggregation/policy/policy.h"

namespace fedqueue::test {

inline FacilityId facility_id(const std::string& name) { return FacilityId(name); }

inline KnownFacility known(const std::string& name, std::int64_t samples = 1000) {
  KnownFacility facility;
  facility.id = FacilityId(name);
  facility.samples = samples;
  return facility;
}

inline KnownFacility known(const std::string& name, double wait_s, double step_seconds) {
  KnownFacility facility = known(name);
  facility.predicted_wait_s = wait_s;
  facility.step_seconds = step_seconds;
  return facility;
}

// An update in time, all of whose steps were run.
inline Arrival arrival(const std::string& name, Version base, Version arrived_in,
                       std::int64_t steps = 100, int segment = 1) {
  Arrival result;
  result.id =
      make_update_id(FacilityId(name), make_attempt_id("1", static_cast<int>(base)), segment);
  result.facility = FacilityId(name);
  result.base = base;
  result.staleness = arrived_in - base;
  result.steps_assigned = steps;
  result.steps_run = steps;
  result.queue_wait_s = 10;
  result.deadline_wait_s = 100;
  result.arrived_in = arrived_in;
  return result;
}

inline Arrival waited(Arrival arrival, double wait_s, double deadline_s) {
  arrival.queue_wait_s = wait_s;
  arrival.deadline_wait_s = deadline_s;
  return arrival;
}

// Puts the arrival where the policy wants it and returns what the policy said.
inline Admission deliver(const Policy& policy, RoundState& round, const Arrival& arrival) {
  Admission admission = policy.admit(arrival, round);
  if (admission.kind == Admission::Kind::count) round.counted.push_back(arrival);
  if (admission.kind == Admission::Kind::buffer) round.late.push_back(arrival);
  if (admission.kind != Admission::Kind::reject) std::erase(round.outstanding, arrival.facility);
  return admission;
}

// The round after the one that was aggregated.
inline RoundState next_round(const RoundState& round, const Aggregation& aggregation) {
  RoundState next;
  next.version = round.version + 1;
  next.enrolled = round.enrolled;
  for (const Arrival& arrival : round.late)
    for (const UpdateId& kept : aggregation.kept_late)
      if (arrival.id == kept) next.late.push_back(arrival);
  return next;
}

inline std::vector<std::pair<std::string, std::int64_t>> facility_and_staleness(
    const Aggregation& aggregation) {
  std::vector<std::pair<std::string, std::int64_t>> result;
  for (const WeightedUpdate& update : aggregation.updates)
    result.emplace_back(update.facility.str(), update.staleness);
  return result;
}

inline std::vector<double> weights_of(const Aggregation& aggregation) {
  std::vector<double> result;
  for (const WeightedUpdate& update : aggregation.updates) result.push_back(update.weight);
  return result;
}

}  // namespace fedqueue::test
