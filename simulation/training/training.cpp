#include "simulation/training/training.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/tensor/control.h"
#include "fedclient/trainer/model_file.h"

namespace fedqueue::simulation {
namespace {

constexpr std::int64_t kEvaluationBatch = 500;

// `count` samples at equal distances, since a dataset may be sorted.
Dataset thinned(const Dataset& dataset, std::int64_t count) {
  if (count <= 0 || count >= dataset.samples()) return dataset;
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(i * dataset.samples() / count);
  return dataset.subset(indices);
}

Result<Partition> divide(const TrainingOptions& options, const Dataset& train) {
  PartitionOptions partition;
  partition.facilities = options.facilities;
  partition.seed = options.data_seed;
  partition.samples_min = std::min<std::int64_t>(options.batch, 10);
  switch (options.division) {
    case Division::iid:
      return partition_evenly(train.samples(), partition);
    case Division::dirichlet:
      return partition_dirichlet(train.labels, options.alpha, partition);
    case Division::shards:
      return partition_shards(train.labels, options.shards, partition);
  }
  FEDQUEUE_ASSERT(false);
}

}  // namespace

Result<TrainingData> load_training_data(const std::filesystem::path& directory) {
  Result<Dataset> train = load_dataset(directory, Split::train);
  if (!train) return train.error();
  Result<Dataset> held_out = load_dataset(directory, Split::held_out);
  if (!held_out) return held_out.error();
  if (train->input.tokens) {
    return Error{Code::data, "load " + directory.string() + ": it holds tokens, without labels",
                 "Name the directory of a labelled dataset."};
  }
  return TrainingData{std::move(*train), std::move(*held_out)};
}

FederatedTask::FederatedTask(TrainingOptions options, Dataset train, Dataset held_out,
                             Partition partition, std::unique_ptr<Network> network)
    : options_(std::move(options)),
      train_(std::move(train)),
      held_out_(std::move(held_out)),
      partition_(std::move(partition)),
      network_(std::move(network)) {
  for (std::size_t k = 0; k < partition_.size(); ++k) {
    samplers_.emplace_back(static_cast<std::int64_t>(partition_[k].size()), options_.batch,
                           options_.data_seed * 1000003 + k);
  }
}

Result<std::unique_ptr<FederatedTask>> FederatedTask::create(const TrainingOptions& options,
                                                             const TrainingData& data) {
  if (options.batch < 1) {
    return Error{Code::usage, "start training: a batch of " + std::to_string(options.batch),
                 "Use a batch of at least one sample."};
  }
  Dataset train = thinned(data.train, options.samples_max);
  Dataset held_out = thinned(data.held_out, options.evaluation_samples);
  NetworkSpec spec{options.model, std::max(train.classes, held_out.classes), train.input};
  NetworkOptions network_options;
  network_options.threads = 1;
  network_options.seed = options.model_seed;
  auto network = Network::create(spec, network_options);
  if (!network) return network.error();
  Result<Partition> partition = divide(options, train);
  if (!partition) return partition.error();
  std::unique_ptr<FederatedTask> task(new FederatedTask(
      options, std::move(train), std::move(held_out), std::move(*partition), std::move(*network)));
  task->initial_.resize(task->manifest().data_bytes);
  if (Status status = task->network_->store(task->initial_); !status) return status.error();
  return task;
}

std::int64_t FederatedTask::samples(int facility) const {
  return static_cast<std::int64_t>(partition_.at(static_cast<std::size_t>(facility)).size());
}

Status FederatedTask::correct(std::span<const float> correction, LocalStep& local) {
  local.correct = !correction.empty();
  if (!local.correct) return {};
  FEDQUEUE_ASSERT(local.optimizer.momentum == 0);
  const Result<tensor::Manifest> layout = tensor::controls_of(manifest());
  if (!layout) return layout.error();
  return network_->set_correction(*layout, correction);
}

Result<LocalResult> FederatedTask::train(int facility, std::span<const std::byte> base,
                                         const LocalWork& work) {
  FEDQUEUE_ASSERT(work.steps >= 1);
  const auto k = static_cast<std::size_t>(facility);
  const std::vector<std::int64_t>& own = partition_.at(k);
  if (Status status = network_->load(base); !status) return status.error();
  network_->reset_optimizer();
  LocalStep local;
  local.learning_rate = work.learning_rate;
  local.optimizer.momentum = options_.momentum;
  local.optimizer.weight_decay = options_.weight_decay;
  local.proximal = work.proximal.value_or(options_.proximal);
  if (local.proximal != 0) network_->set_anchor();
  if (Status status = correct(work.correction, local); !status) return status.error();
  LocalResult result;
  for (std::int64_t step = 0; step < work.steps; ++step) {
    std::vector<std::int64_t> batch = samplers_[k].next(0, 1);
    for (std::int64_t& index : batch) index = own[static_cast<std::size_t>(index)];
    if (Status status =
            network_->accumulate(gather(train_, batch), {.global_batch = options_.batch});
        !status)
      return status.error();
    const Result<BatchTotals> totals = network_->totals();
    if (!totals) return totals.error();
    result.loss_mean += totals->loss_mean / static_cast<double>(work.steps);
    if (Status status = network_->apply(local); !status) return status.error();
  }
  steps_done_ += work.steps;
  result.update.resize(manifest().data_bytes);
  if (Status status = network_->store(result.update); !status) return status.error();
  if (Status status = subtract_base(manifest(), base, result.update); !status)
    return status.error();
  return result;
}

Result<Score> FederatedTask::evaluate(std::span<const std::byte> model) {
  if (Status status = network_->load(model); !status) return status.error();
  EvaluationTotals totals;
  for (std::int64_t begin = 0; begin < held_out_.samples(); begin += kEvaluationBatch) {
    const std::int64_t end = std::min(begin + kEvaluationBatch, held_out_.samples());
    const Result<EvaluationTotals> part = network_->evaluate(gather(held_out_, begin, end));
    if (!part) return part.error();
    totals.loss_sum += part->loss_sum;
    totals.correct += part->correct;
    totals.targets += part->targets;
  }
  const auto targets = static_cast<double>(totals.targets);
  return Score{static_cast<double>(totals.correct) / targets, totals.loss_sum / targets};
}

}  // namespace fedqueue::simulation
