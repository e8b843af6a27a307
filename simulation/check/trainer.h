// Training in the suite: small made-up updates, the same for the same attempt and segment, and the
// lies of those facilities that lie.
//
// Not thread-safe.
#pragma once

#include <map>

#include "simulation/check/faults.h"

namespace fedqueue::simulation {

class CheckTrainer : public SimTrainer {
 public:
  CheckTrainer(const Scenario& scenario, const Faults& faults);

  double launch_s(const FacilityId& facility) override;
  double step_s(const FacilityId& facility, const Segment& segment) override;
  Result<LocalOutcome> train(const LocalTask& task) override;
  void tempt(const FacilityId& facility, OwnUpdate& update) override;

 private:
  const Faults& faults_;
  std::uint64_t seed_;
  double fails_;
  std::map<FacilityId, ScenarioFacility> facilities_;
  Prng speeds_;
  Prng failures_;
  Prng lies_;
};

}  // namespace fedqueue::simulation
