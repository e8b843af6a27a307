#include "simulation/check/trainer.h"

#include <limits>

#include "core/base/digest.h"

namespace fedqueue::simulation {

CheckTrainer::CheckTrainer(const Scenario& scenario, const Faults& faults)
    : faults_(faults),
      seed_(scenario.seed),
      fails_(scenario.rates.trainer_fails),
      speeds_(stream(scenario.seed, "speeds")),
      failures_(stream(scenario.seed, "failures")),
      lies_(stream(scenario.seed, "lies")) {
  for (const ScenarioFacility& facility : scenario.facilities) {
    facilities_[FacilityId(facility.name)] = facility;
  }
}

double CheckTrainer::launch_s(const FacilityId& facility) {
  return facilities_.at(facility).launch_s * between(speeds_, 0.5, 1.5);
}

double CheckTrainer::step_s(const FacilityId& facility, const Segment&) {
  return facilities_.at(facility).step_s * between(speeds_, 0.8, 1.2);
}

Result<LocalOutcome> CheckTrainer::train(const LocalTask& task) {
  if (faults_.active() && chance(failures_, fails_)) {
    return Error{Code::data, "the dataset is gone", ""};
  }
  Prng random = stream(seed_, make_update_id(task.facility, task.attempt, task.segment.index).str(),
                       static_cast<std::uint64_t>(to_micros(task.began)));
  std::vector<float> update(to_floats(*task.base).size());
  for (float& value : update) {
    value = static_cast<float>(0.01 * random.normal() * static_cast<double>(task.steps));
  }
  LocalOutcome outcome;
  outcome.update = to_bytes(update);
  outcome.loss = random.uniform();
  outcome.samples = 32 * task.steps;
  return outcome;
}

void CheckTrainer::tempt(const FacilityId& id, OwnUpdate& update) {
  const ScenarioFacility& facility = facilities_.at(id);
  if (facility.lie == Lie::none || !chance(lies_, facility.lies)) return;
  auto values = to_floats(*update.content);
  std::vector<float> content(values.begin(), values.end());
  const std::string honest_digest = xxh128_hex(*update.content);
  switch (facility.lie) {
    case Lie::none:
      break;
    case Lie::too_many_steps:
      update.metadata.steps_run += 1 + static_cast<std::int64_t>(lies_.below(100000));
      break;
    case Lie::old_base:
      update.metadata.base += update.metadata.base > 0 ? -1 : 1;
      break;
    case Lie::not_finite:
      content[lies_.below(content.size())] = lies_.uniform() < 0.5
                                                 ? std::numeric_limits<float>::quiet_NaN()
                                                 : std::numeric_limits<float>::infinity();
      break;
    case Lie::other_size:
      content.resize(content.size() + 1 + lies_.below(3), 1);
      break;
    case Lie::other_facility: {
      const Result<UpdateParts> parts = parse_update_id(update.id.str());
      update.id = make_update_id(facilities_.begin()->first, parts->attempt, parts->segment);
      break;
    }
    case Lie::other_segment: {
      const Result<UpdateParts> parts = parse_update_id(update.id.str());
      update.id = make_update_id(parts->facility, parts->attempt, parts->segment + 1);
      break;
    }
    case Lie::other_bytes:
      content[lies_.below(content.size())] += 1;
      update.digest = honest_digest;
      break;
    case Lie::other_token:
      update.token = "somebody-elses";
      break;
    case Lie::huge:
      for (float& value : content) value *= 1e30f;
      break;
  }
  update.content = std::make_shared<const Bytes>(to_bytes(content));
}

}  // namespace fedqueue::simulation
