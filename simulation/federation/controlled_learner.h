// SCAFFOLD around any learner: models carry the server's control variates and updates their
// differences, as the trainer's files do (core/tensor/control.h), and each facility's own outlive
// its jobs.
//
// A lesson follows g + (c − c_k), c as it came with the base; the update carries
// c_k' − c_k = (x − y)/(E·η) − c, and c_k is the sum of the differences that the server took.
// The inner learner sees models without control variates, and gets the correction with its lesson;
// it trains by plain SGD with the lesson's rate.
//
// Source: Karimireddy et al., "SCAFFOLD", arXiv 1910.06378, option II. Not thread-safe.
#pragma once

#include <vector>

#include "simulation/federation/learner.h"

namespace fedqueue::simulation {

class ControlledLearner final : public Learner {
 public:
  // `learner` outlives the result.
  static Result<ControlledLearner> create(Learner& learner, int facilities);

  // Of the model together with its control variates.
  [[nodiscard]] const tensor::Manifest& manifest() const override { return layout_; }
  [[nodiscard]] Bytes initial() const override;
  [[nodiscard]] std::int64_t samples(int facility) const override {
    return learner_->samples(facility);
  }
  Result<Learned> train(std::span<const std::byte> base, const Lesson& lesson) override;
  void taken(int facility, std::span<const std::byte> update) override;
  Result<Grade> evaluate(std::span<const std::byte> model) override;

 private:
  ControlledLearner(Learner& learner, tensor::Manifest layout, tensor::Manifest controls,
                    int facilities);
  [[nodiscard]] std::vector<float> controls_in(std::span<const std::byte> data) const;

  Learner* learner_;
  tensor::Manifest layout_;
  tensor::Manifest controls_;            // alone
  std::vector<std::vector<float>> own_;  // c_k, in the order of `controls_`
};

}  // namespace fedqueue::simulation
