#include "fedclient/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "core/base/assert.h"
#include "core/base/prng.h"

namespace fedqueue {

BatchSampler::BatchSampler(std::int64_t samples, std::int64_t batch, std::uint64_t seed)
    : samples_(samples), batch_(batch), seed_(seed) {
  FEDQUEUE_ASSERT(samples > 0 && batch > 0);
  order_.resize(static_cast<std::size_t>(samples));
  load_epoch(0);
}

std::vector<std::int64_t> BatchSampler::next(int rank, int ranks) {
  FEDQUEUE_ASSERT(rank >= 0 && rank < ranks);
  const std::int64_t begin = batch_ * rank / ranks;
  const std::int64_t end = batch_ * (rank + 1) / ranks;
  std::vector<std::int64_t> shard;
  shard.reserve(static_cast<std::size_t>(end - begin));
  for (std::int64_t done = 0; done < batch_;) {
    if (position_.offset == samples_) load_epoch(position_.epoch + 1);
    const std::int64_t run = std::min(batch_ - done, samples_ - position_.offset);
    const std::int64_t from = std::clamp(begin - done, std::int64_t{0}, run);
    const std::int64_t to = std::clamp(end - done, std::int64_t{0}, run);
    const auto first = order_.begin() + position_.offset;
    shard.insert(shard.end(), first + from, first + to);
    position_.offset += run;
    done += run;
  }
  return shard;
}

void BatchSampler::seek(BatchPosition position) {
  FEDQUEUE_ASSERT(position.epoch >= 0 && position.offset >= 0 && position.offset <= samples_);
  if (position.epoch != position_.epoch) load_epoch(position.epoch);
  position_ = position;
}

void BatchSampler::load_epoch(std::int64_t epoch) {
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  // Mixing by an odd constant keeps (seed 1, epoch 2) apart from (seed 2, epoch 1).
  Prng prng(seed_ ^ (static_cast<std::uint64_t>(epoch + 1) * 0x9e3779b97f4a7c15u));
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[prng.below(i)]);
  position_ = {epoch, 0};
}

}  // namespace fedqueue
