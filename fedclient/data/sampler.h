// Which samples each training step sees.
//
// The samples form one endless stream: epoch after epoch, each a shuffle that follows from (seed,
// epoch) alone. Step s takes the next `batch` samples, across the end of an epoch if need be, so
// that every step has the same global batch. The ranks cut that batch into consecutive shards;
// their union is the same batch whatever the number of ranks, and shards may differ by one sample.
//
// Balanced, each class is drawn equally often: rounds of all classes in random order, and within a
// class its own samples, shuffled anew when they are used up. An epoch is as long as the dataset;
// it holds samples of rare classes several times and not all of frequent ones.
//
// Weighted, an epoch has sample i about n·p_i times: the whole part of it for certain and one more
// with the rest as its probability (systematic resampling), in random order.
//
// Every rank advances its own sampler in step; nothing is communicated. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/prng.h"

namespace fedqueue {

struct BatchPosition {
  std::int64_t epoch = 0;
  std::int64_t offset = 0;  // samples of this epoch already used

  friend bool operator==(const BatchPosition&, const BatchPosition&) = default;
};

class BatchSampler {
 public:
  // REQUIRES: samples > 0, batch > 0.
  BatchSampler(std::int64_t samples, std::int64_t batch, std::uint64_t seed);
  // REQUIRES: labels, batch > 0.
  static BatchSampler balanced(std::span<const std::int32_t> labels, std::int64_t batch,
                               std::uint64_t seed);
  // REQUIRES: batch > 0; probabilities that sum to 1.
  static BatchSampler weighted(std::vector<double> probabilities, std::int64_t batch,
                               std::uint64_t seed);

  // This rank's shard of the next global batch; advances by one step.
  // REQUIRES: 0 <= rank < ranks.
  std::vector<std::int64_t> next(int rank, int ranks);

  [[nodiscard]] BatchPosition position() const { return position_; }
  [[nodiscard]] std::int64_t samples() const { return samples_; }  // of an epoch
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  // REQUIRES: a position this sampler (or one with the same arguments) returned.
  void seek(BatchPosition position);

 private:
  void load_epoch(std::int64_t epoch);
  void balance(Prng& prng);
  void resample(Prng& prng);

  std::int64_t samples_;
  std::int64_t batch_;
  std::uint64_t seed_;
  BatchPosition position_;
  std::vector<std::vector<std::int64_t>> classes_;  // balanced: the samples of each that has any
  std::vector<double> probabilities_;               // weighted
  std::vector<std::int64_t> order_;
};

}  // namespace fedqueue
