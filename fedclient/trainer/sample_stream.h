// The batches of a training, one after the other, and where in the data it is.
//
// Promises: settings and the size of the batch may change between two batches, and no sample is
// skipped or read twice for it; place() is behind the batch that was taken last. Sampling by losses
// has whole batches alone: what is left of an epoch is not drawn.
//
// All ranks call next() and remember() together. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "fedclient/collective/collective.h"
#include "fedclient/data/dataset.h"
#include "fedclient/data/loader.h"
#include "fedclient/data/loss_memory.h"
#include "fedclient/data/sampler.h"
#include "fedclient/recipe/training_settings.h"

namespace fedqueue {

// Part of a facility's checkpoint.
struct DataPlace {
  std::uint64_t order_seed = 0;  // of the samples' order
  BatchPosition position;
  std::int64_t samples = 0;  // of the dataset that the position is in
  // With sampling by losses, one for each sample (data/loss_memory.h): now, and when the epoch
  // began. Empty: nothing is known.
  std::vector<float> losses;
  std::vector<float> drawn_by;

  friend bool operator==(const DataPlace&, const DataPlace&) = default;
};

class SampleStream {
 public:
  // Both must outlive the stream.
  SampleStream(const Dataset& dataset, Collective& collective, int loader_threads)
      : dataset_(dataset), collective_(collective), loader_threads_(loader_threads) {}

  // At the first call, and when the settings have another seed, from the beginning of its order;
  // otherwise from here on. `batch` counts the samples of all ranks.
  void use(const TrainingSettings& settings, std::int64_t batch);
  void change_batch(std::int64_t batch);
  // REQUIRES: use() was called, here and for the rest.
  [[nodiscard]] DataPlace place() const;
  [[nodiscard]] std::uint64_t order_seed() const { return order_seed_; }
  // A place in a dataset that has changed is that dataset's beginning.
  void go_to(DataPlace place);

  // This rank's part of the next batch. Code::data when a sample cannot be trained on.
  Result<Batch> next();
  [[nodiscard]] bool by_losses() const { return settings_.sampling == Sampling::loss_weighted; }
  // The losses of the part that next() gave; every rank learns those of all parts.
  Status remember(std::span<const float> own_losses);

  // Seconds that next() has waited for samples.
  [[nodiscard]] double wait_seconds() const;

 private:
  void load(BatchPosition position);
  [[nodiscard]] BatchSampler sampler() const;
  void begin_epoch_by_losses();

  const Dataset& dataset_;
  Collective& collective_;
  int loader_threads_;
  TrainingSettings settings_;
  std::int64_t batch_ = 0;
  std::uint64_t order_seed_ = 0;
  LossMemory losses_;
  std::vector<float> drawn_by_;
  std::unique_ptr<BatchLoader> loader_;
  double waited_ = 0;  // for loaders that are no more
};

}  // namespace fedqueue
