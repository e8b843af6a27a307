// What a trainer knows beside the model, so that a facility's next job goes on where this one was:
// the optimiser's state, the place in the learning-rate schedule and the place in the data.
//
// On disk a safetensors file with `first.NAME` and `second.NAME` for each parameter NAME (as far as
// the optimiser has them), the samples' losses if there are any, and the rest as metadata
// (docs/training.md).
//
// Thread safety: plain values and functions on distinct paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/base/result.h"
#include "fedclient/collective/collective.h"
#include "fedclient/recipe/learning_rate.h"
#include "fedclient/trainer/network.h"
#include "fedclient/trainer/optimizer.h"
#include "fedclient/trainer/sample_stream.h"

namespace fedqueue {

struct TrainerState {
  OptimizerState optimizer;
  LearningRateState schedule;
  DataPlace data;
};

// Every rank ends with rank 0's.
Status share(TrainerState& state, Collective& collective);

// Whole or not at all, on disk when it returns. Code::not_finite leaves the old file: what has left
// the numbers would spoil every later job.
Status write_trainer_state(const std::filesystem::path& path, const TrainerState& state,
                           const std::vector<ParameterRange>& parameters);
// Code::model_mismatch if it is of another model, Code::model_format if it is damaged or not
// finite.
Result<TrainerState> read_trainer_state(const std::filesystem::path& path,
                                        const std::vector<ParameterRange>& parameters);

}  // namespace fedqueue
