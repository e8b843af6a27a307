// Training in the suite: small made-up updates, the same for the same attempt and segment,
// corrected by control variates where the policy has them, and the lies of those facilities that
// lie.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "simulation/check/faults.h"

namespace fedqueue::simulation {

class CheckTrainer : public SimTrainer {
 public:
  CheckTrainer(const Scenario& scenario, const Faults& faults);

  double launch_s(const FacilityId& facility) override;
  double step_s(const FacilityId& facility, const Segment& segment) override;
  Result<LocalOutcome> train(const LocalTask& task) override;
  void settled(const FacilityId& facility, const OwnUpdate& update,
               Disposition disposition) override;
  // Who is told of every settled update; outlives the trainer.
  using Settled = std::function<void(const FacilityId&, const UpdateId&, Disposition)>;
  void on_settled(Settled callback) { on_settled_ = std::move(callback); }
  void tempt(const FacilityId& facility, OwnUpdate& update) override;

 private:
  void correct(const LocalTask& task, std::vector<float>& update);

  const Scenario& scenario_;
  const Faults& faults_;
  std::uint64_t seed_;
  double fails_;
  std::map<FacilityId, ScenarioFacility> facilities_;
  std::map<FacilityId, std::vector<float>> own_;  // c_k
  Settled on_settled_;
  Prng speeds_;
  Prng failures_;
  Prng lies_;
};

}  // namespace fedqueue::simulation
