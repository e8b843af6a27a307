// Real training inside a simulated federation: the client's own models on a real dataset that is
// divided among the facilities, in this process and on one thread. Only the time it takes is
// virtual.
//
// Models and updates are the data section of a safetensors file laid out by manifest(); an update
// holds the difference to its base for each float tensor and the new value for each integer one, as
// the client's own files do.
//
// Promises: the same options and the same calls give the same bytes (on one machine and LibTorch);
// a facility's samples are used epoch after epoch, across segments and jobs; the held-out split is
// never trained on.
//
// Not thread-safe; worlds that train at the same time are separate processes, each with one
// LibTorch thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/tensor/manifest.h"
#include "fedclient/data/dataset.h"
#include "fedclient/data/partition.h"
#include "fedclient/data/sampler.h"
#include "fedclient/trainer/network.h"

namespace fedqueue::simulation {

enum class Division { iid, dirichlet, shards };

struct TrainingOptions {
  std::string model = "mlp";
  int facilities = 4;
  Division division = Division::dirichlet;
  double alpha = 0.3;            // dirichlet
  int shards = 2;                // shards: per facility
  std::int64_t samples_max = 0;  // of the training split, spread over it; 0: all
  std::int64_t batch = 32;
  double momentum = 0;
  double weight_decay = 0;
  double proximal = 0;
  std::int64_t evaluation_samples = 2000;  // of the held-out split, spread over it; 0: all
  std::uint64_t data_seed = 42;            // division and order of the samples
  std::uint64_t model_seed = 1;            // initial parameters
};

// Both splits, loaded once and shared by the processes that are forked afterwards.
struct TrainingData {
  Dataset train;
  Dataset held_out;
};
[[nodiscard]] Result<TrainingData> load_training_data(const std::filesystem::path& directory);

struct LocalWork {
  std::int64_t steps = 0;
  double learning_rate = 0;
  std::optional<double> proximal;  // instead of the options' own
  // SCAFFOLD: is added to each gradient, in the order of tensor::controls_of(manifest()). Empty:
  // nothing is.
  std::span<const float> correction;
};

struct LocalResult {
  std::vector<std::byte> update;
  double loss_mean = 0;  // over the steps
};

struct Score {
  double accuracy = 0;
  double loss = 0;
};

class FederatedTask {
 public:
  static Result<std::unique_ptr<FederatedTask>> create(const TrainingOptions& options,
                                                       const TrainingData& data);

  [[nodiscard]] const TrainingOptions& options() const { return options_; }
  [[nodiscard]] const tensor::Manifest& manifest() const { return network_->manifest(); }
  // The initial model.
  [[nodiscard]] const std::vector<std::byte>& initial() const { return initial_; }
  // REQUIRES: 0 <= facility < options().facilities; also below.
  [[nodiscard]] std::int64_t samples(int facility) const;
  [[nodiscard]] const Partition& partition() const { return partition_; }

  // Trains from `base`. Code::not_finite when the loss leaves the numbers.
  // REQUIRES: base.size() == manifest().data_bytes; work.steps >= 1; no momentum with a correction.
  Result<LocalResult> train(int facility, std::span<const std::byte> base, const LocalWork& work);

  Result<Score> evaluate(std::span<const std::byte> model);

  // Local steps done since the beginning, by all facilities.
  [[nodiscard]] std::int64_t steps_done() const { return steps_done_; }

 private:
  FederatedTask(TrainingOptions options, Dataset train, Dataset held_out, Partition partition,
                std::unique_ptr<Network> network);
  Status correct(std::span<const float> correction, LocalStep& local);

  TrainingOptions options_;
  Dataset train_;
  Dataset held_out_;
  Partition partition_;
  std::unique_ptr<Network> network_;
  std::vector<BatchSampler> samplers_;
  std::vector<std::byte> initial_;
  std::int64_t steps_done_ = 0;
};

}  // namespace fedqueue::simulation
