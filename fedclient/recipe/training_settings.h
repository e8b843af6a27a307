// Everything that decides how a facility trains, whoever says it: the run (`[training]` on the
// server, handed to every trainer), or the facility's own configuration.
//
// One table has the names, kinds, limits and help of all of them; command lines, files and what
// the server hands out are read by it alike.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/config/option.h"
#include "fedclient/recipe/augmentation.h"
#include "fedclient/recipe/learning_rate.h"
#include "fedclient/recipe/optimizer_settings.h"

namespace fedqueue {

// Every sample once in an epoch, every class equally often (data/sampler.h), or by the samples'
// losses (data/loss_memory.h).
enum class Sampling : std::int32_t { shuffled, balanced, loss_weighted };

// Plain bytes, since rank 0 sends it to the other ranks.
struct TrainingSettings {
  std::int64_t batch_size = 64;  // global: summed over the ranks
  // True: batch_size is that of one rank, so that more ranks make a larger global batch.
  bool batch_per_rank = false;
  std::int64_t micro_batch =
      0;  // samples of one forward and backward of a rank; 0: its whole share
  OptimizerSettings optimizer;
  LearningRateSettings learning_rate;
  bool adascale = false;
  Sampling sampling = Sampling::shuffled;
  double sampling_floor = 0.5;   // loss_weighted
  double sampling_memory = 0.5;  // loss_weighted
  Augmentation augmentation;
  double proximal = 0;     // FedProx: pull towards the segment's base
  std::uint64_t seed = 1;  // of the order of the samples

  [[nodiscard]] std::int64_t global_batch(int ranks) const {
    return batch_per_rank ? batch_size * ranks : batch_size;
  }
  friend bool operator==(const TrainingSettings&, const TrainingSettings&) = default;
};

// The options, as commands declare them.
[[nodiscard]] std::vector<OptionSpec> training_options();

// `otherwise` with what `values` say, checked. Names that are not in the table are left out: a
// newer server may know more than this trainer.
[[nodiscard]] Result<TrainingSettings> training_settings(
    const std::map<std::string, std::string>& values, TrainingSettings otherwise = {});

// Code::usage for a name that is not in the table, with the nearest one.
[[nodiscard]] Status check_training_name(const std::string& name);

// Code::usage when the settings contradict each other, or so many ranks cannot train like this.
[[nodiscard]] Status check_training(const TrainingSettings& settings, int ranks);

// Code::usage when a model with control variates cannot be trained like this: they are estimated
// from the steps of plain SGD.
[[nodiscard]] Status check_controls(const TrainingSettings& settings);

}  // namespace fedqueue
