#include "fedclient/data/sampler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

void shuffle(std::vector<std::int64_t>& values, Prng& prng) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[prng.below(i)]);
}

}  // namespace

BatchSampler::BatchSampler(std::int64_t samples, std::int64_t batch, std::uint64_t seed)
    : samples_(samples), batch_(batch), seed_(seed) {
  FEDQUEUE_ASSERT(samples > 0 && batch > 0);
  order_.resize(static_cast<std::size_t>(samples));
  load_epoch(0);
}

BatchSampler BatchSampler::balanced(std::span<const std::int32_t> labels, std::int64_t batch,
                                    std::uint64_t seed) {
  BatchSampler sampler(static_cast<std::int64_t>(labels.size()), batch, seed);
  std::map<std::int32_t, std::vector<std::int64_t>> members;
  for (std::size_t i = 0; i < labels.size(); ++i)
    members[labels[i]].push_back(static_cast<std::int64_t>(i));
  for (auto& [label, samples] : members) sampler.classes_.push_back(std::move(samples));
  sampler.load_epoch(0);
  return sampler;
}

BatchSampler BatchSampler::weighted(std::vector<double> probabilities, std::int64_t batch,
                                    std::uint64_t seed) {
  BatchSampler sampler(static_cast<std::int64_t>(probabilities.size()), batch, seed);
  sampler.probabilities_ = std::move(probabilities);
  sampler.load_epoch(0);
  return sampler;
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
  // Mixing by an odd constant keeps (seed 1, epoch 2) apart from (seed 2, epoch 1).
  Prng prng(seed_ ^ (static_cast<std::uint64_t>(epoch + 1) * 0x9e3779b97f4a7c15u));
  if (!probabilities_.empty()) {
    resample(prng);
  } else if (classes_.empty()) {
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
    shuffle(order_, prng);
  } else {
    balance(prng);
  }
  position_ = {epoch, 0};
}

// Places u, u + 1, u + 2 … on a line on which sample i has a stretch of n·p_i.
void BatchSampler::resample(Prng& prng) {
  const double start = prng.uniform();
  double end = 0;
  order_.clear();
  const auto place = [&] { return start + static_cast<double>(order_.size()); };
  for (std::size_t i = 0; i < probabilities_.size(); ++i) {
    end += probabilities_[i] * static_cast<double>(samples_);
    while (static_cast<std::int64_t>(order_.size()) < samples_ && place() < end)
      order_.push_back(static_cast<std::int64_t>(i));
  }
  // Rounding may end the line a little early.
  while (static_cast<std::int64_t>(order_.size()) < samples_) order_.push_back(samples_ - 1);
  shuffle(order_, prng);
}

void BatchSampler::balance(Prng& prng) {
  std::vector<std::vector<std::int64_t>> left(classes_.size());  // of each class, taken from behind
  std::vector<std::int64_t> turns(classes_.size());
  std::iota(turns.begin(), turns.end(), std::int64_t{0});
  order_.clear();
  while (static_cast<std::int64_t>(order_.size()) < samples_) {
    shuffle(turns, prng);
    for (const std::int64_t turn : turns) {
      const auto k = static_cast<std::size_t>(turn);
      if (static_cast<std::int64_t>(order_.size()) == samples_) break;
      if (left[k].empty()) {
        left[k] = classes_[k];
        shuffle(left[k], prng);
      }
      order_.push_back(left[k].back());
      left[k].pop_back();
    }
  }
}

}  // namespace fedqueue
