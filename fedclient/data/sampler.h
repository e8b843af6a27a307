// Which samples each training step sees.
//
// The samples form one endless stream: epoch after epoch, each a shuffle that follows from (seed,
// epoch) alone. Step s takes the next `batch` samples, across the end of an epoch if need be, so
// that every step has the same global batch. The ranks cut that batch into consecutive shards;
// their union is the same batch whatever the number of ranks, and shards may differ by one sample.
//
// Every rank advances its own sampler in step; nothing is communicated. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

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

  // This rank's shard of the next global batch; advances by one step.
  // REQUIRES: 0 <= rank < ranks.
  std::vector<std::int64_t> next(int rank, int ranks);

  [[nodiscard]] BatchPosition position() const { return position_; }
  // REQUIRES: a position this sampler (or one with the same arguments) returned.
  void seek(BatchPosition position);

 private:
  void load_epoch(std::int64_t epoch);

  std::int64_t samples_;
  std::int64_t batch_;
  std::uint64_t seed_;
  BatchPosition position_;
  std::vector<std::int64_t> order_;
};

}  // namespace fedqueue
