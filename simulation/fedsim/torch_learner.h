// The learner of real experiments: LibTorch models on a real dataset (simulation/training).
//
// Not thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "simulation/experiment/setting.h"
#include "simulation/federation/learner.h"
#include "simulation/training/training.h"

namespace fedqueue::simulation {

class TorchLearner final : public Learner {
 public:
  // The data are divided and the model is drawn by the cell's seed.
  static Result<std::unique_ptr<TorchLearner>> create(const Setting& setting, std::uint64_t seed,
                                                      const TrainingData& data);

  [[nodiscard]] const tensor::Manifest& manifest() const override { return task_->manifest(); }
  [[nodiscard]] Bytes initial() const override { return task_->initial(); }
  [[nodiscard]] std::int64_t samples(int facility) const override {
    return task_->samples(facility);
  }
  Result<Learned> train(std::span<const std::byte> base, const Lesson& lesson) override;
  Result<Grade> evaluate(std::span<const std::byte> model) override;

 private:
  explicit TorchLearner(std::unique_ptr<FederatedTask> task) : task_(std::move(task)) {}
  std::unique_ptr<FederatedTask> task_;
};

}  // namespace fedqueue::simulation
