#include "simulation/check/trainer.h"

#include <limits>

#include "core/base/digest.h"

namespace fedqueue::simulation {

CheckTrainer::CheckTrainer(const Scenario& scenario, const Faults& faults)
    : scenario_(scenario),
      faults_(faults),
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
  for (float& value : std::span(update).first(scenario_.parameters_of(update.size()))) {
    value = static_cast<float>(0.01 * random.normal() * static_cast<double>(task.steps));
  }
  if (scenario_.with_controls) correct(task, update);
  LocalOutcome outcome;
  outcome.update = to_bytes(update);
  outcome.loss = random.uniform();
  outcome.samples = 32 * task.steps;
  return outcome;
}

// y − x = −Σ lr·(g + c − c_k), and behind it c_k' − c_k = (x − y)/Σ lr − c.
void CheckTrainer::correct(const LocalTask& task, std::vector<float>& update) {
  const std::size_t parameters = scenario_.parameters_of(update.size());
  const std::span<const float> server = to_floats(*task.base).subspan(parameters);
  std::vector<float>& own = own_[task.facility];
  own.resize(parameters);
  const double rates = static_cast<double>(task.steps) * task.segment.learning_rate;
  if (!(rates > 0)) return;
  for (std::size_t i = 0; i < parameters; ++i) {
    const double moved = update[i] - rates * (static_cast<double>(server[i]) - own[i]);
    update[i] = static_cast<float>(moved);
    update[parameters + i] = static_cast<float>(-moved / rates - server[i]);
  }
}

void CheckTrainer::settled(const FacilityId& facility, const OwnUpdate& update,
                           Disposition disposition) {
  if (on_settled_) on_settled_(facility, update.id, disposition);
  const std::span<const float> content = to_floats(*update.content);
  if (!scenario_.with_controls || disposition == Disposition::rejected) return;
  const std::size_t parameters = scenario_.parameters_of(content.size());
  std::vector<float>& own = own_[facility];
  own.resize(parameters);
  for (std::size_t i = 0; i < parameters; ++i) own[i] += content[parameters + i];
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
