#include "simulation/federation/controlled_learner.h"

#include <utility>

#include "core/tensor/control.h"
#include "core/tensor/control_values.h"

namespace fedqueue::simulation {

ControlledLearner::ControlledLearner(Learner& learner, tensor::Manifest layout,
                                     tensor::Manifest controls, int facilities)
    : learner_(&learner),
      layout_(std::move(layout)),
      controls_(std::move(controls)),
      own_(static_cast<std::size_t>(facilities),
           std::vector<float>(controls_.data_bytes / sizeof(float))) {}

Result<ControlledLearner> ControlledLearner::create(Learner& learner, int facilities) {
  Result<tensor::Manifest> layout = tensor::with_controls(learner.manifest());
  if (!layout) return layout.error();
  Result<tensor::Manifest> controls = tensor::controls_of(learner.manifest());
  if (!controls) return controls.error();
  return ControlledLearner(learner, std::move(*layout), std::move(*controls), facilities);
}

std::vector<float> ControlledLearner::controls_in(std::span<const std::byte> data) const {
  const Bytes bytes = tensor::rearranged_data(layout_, data, controls_);
  const std::span<const float> values = to_floats(bytes);
  return {values.begin(), values.end()};
}

Bytes ControlledLearner::initial() const {
  return tensor::rearranged_data(learner_->manifest(), learner_->initial(), layout_);
}

Result<Learned> ControlledLearner::train(std::span<const std::byte> base, const Lesson& lesson) {
  const std::vector<float> server = controls_in(base);
  const std::vector<float>& own = own_.at(static_cast<std::size_t>(lesson.facility));
  std::vector<float> correction = server;
  for (std::size_t i = 0; i < correction.size(); ++i) correction[i] -= own[i];
  Lesson inner = lesson;
  inner.training.erase("control_variates");
  inner.correction = correction;
  Result<Learned> learned =
      learner_->train(tensor::rearranged_data(layout_, base, learner_->manifest()), inner);
  if (!learned) return learned;
  const double learning_rate_sum = static_cast<double>(lesson.steps) * lesson.learning_rate;
  Result<tensor::ControlledUpdate> update =
      tensor::attach_controls(learner_->manifest(), learned->update, server, learning_rate_sum);
  if (!update) return update.error();
  learned->update = std::move(update->data);
  return learned;
}

void ControlledLearner::taken(int facility, std::span<const std::byte> update) {
  const std::vector<float> differences = controls_in(update);
  std::vector<float>& own = own_.at(static_cast<std::size_t>(facility));
  for (std::size_t i = 0; i < own.size(); ++i) own[i] += differences[i];
}

Result<Grade> ControlledLearner::evaluate(std::span<const std::byte> model) {
  return learner_->evaluate(tensor::rearranged_data(layout_, model, learner_->manifest()));
}

}  // namespace fedqueue::simulation
