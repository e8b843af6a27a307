#include "simulation/fedsim/torch_learner.h"

#include "core/base/text.h"

namespace fedqueue::simulation {

Result<std::unique_ptr<TorchLearner>> TorchLearner::create(const Setting& setting,
                                                           std::uint64_t seed,
                                                           const TrainingData& data) {
  TrainingOptions options;
  options.model = setting.model;
  options.facilities = setting.facilities;
  options.division = setting.division == "iid"      ? Division::iid
                     : setting.division == "shards" ? Division::shards
                                                    : Division::dirichlet;
  options.alpha = setting.alpha;
  options.shards = setting.shards;
  options.samples_max = setting.samples_max;
  options.batch = setting.batch;
  options.momentum = setting.momentum;
  options.evaluation_samples = setting.evaluation_samples;
  options.data_seed = seed;
  options.model_seed = seed;
  Result<std::unique_ptr<FederatedTask>> task = FederatedTask::create(options, data);
  if (!task) return task.error();
  return std::unique_ptr<TorchLearner>(new TorchLearner(std::move(*task)));
}

Result<Learned> TorchLearner::train(std::span<const std::byte> base, const Lesson& lesson) {
  LocalWork work;
  work.steps = lesson.steps;
  work.learning_rate = lesson.learning_rate;
  work.correction = lesson.correction;
  for (const auto& [name, value] : lesson.training) {
    if (name == "proximal") {
      work.proximal = parse_real(value);
      continue;
    }
    // Left out, the policy would be shown as something that it is not.
    return Error{Code::usage, "train: the policy's setting " + name + " is not simulated",
                 "Leave this policy out of the experiment."};
  }
  Result<LocalResult> result = task_->train(lesson.facility, base, work);
  if (!result) return result.error();
  return Learned{std::move(result->update), result->loss_mean,
                 lesson.steps * task_->options().batch};
}

Result<Grade> TorchLearner::evaluate(std::span<const std::byte> model) {
  const Result<Score> score = task_->evaluate(model);
  if (!score) return score.error();
  return Grade{score->accuracy, score->loss};
}

}  // namespace fedqueue::simulation
