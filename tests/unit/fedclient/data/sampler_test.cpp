#include "fedclient/data/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

namespace fedqueue {
namespace {

TEST(Sampler, TheGlobalBatchIsTheSameWhateverTheNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    BatchSampler whole(23, 8, 42);
    std::vector<BatchSampler> samplers(static_cast<std::size_t>(ranks), BatchSampler(23, 8, 42));
    for (int step = 0; step < 20; ++step) {
      std::vector<std::int64_t> joined;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto shard = samplers[static_cast<std::size_t>(rank)].next(rank, ranks);
        EXPECT_GE(shard.size(), static_cast<std::size_t>(8 / ranks));
        joined.insert(joined.end(), shard.begin(), shard.end());
      }
      EXPECT_EQ(joined, whole.next(0, 1));
    }
  }
}

TEST(Sampler, EveryEpochUsesEverySampleOnceInAnotherOrder) {
  BatchSampler sampler(10, 4, 7);
  std::vector<std::int64_t> stream;
  for (int step = 0; step < 5; ++step) {
    const auto batch = sampler.next(0, 1);
    EXPECT_EQ(batch.size(), 4u);
    stream.insert(stream.end(), batch.begin(), batch.end());
  }
  std::vector<std::int64_t> first(stream.begin(), stream.begin() + 10);
  std::vector<std::int64_t> second(stream.begin() + 10, stream.end());
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_THAT(first, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_EQ(first, second);
}

// 90 of class 0, 9 of class 4, one of class 7: each a third of what is drawn.
TEST(Sampler, BalancedDrawsEveryClassEquallyOften) {
  std::vector<std::int32_t> labels(100, 0);
  for (std::size_t i = 40; i < 49; ++i) labels[i] = 4;
  labels[70] = 7;
  BatchSampler sampler = BatchSampler::balanced(labels, 33, 5);
  std::map<std::int32_t, int> drawn;
  std::set<std::int64_t> of_four;
  for (int step = 0; step < 3; ++step) {
    for (const std::int64_t index : sampler.next(0, 1)) {
      const std::int32_t label = labels[static_cast<std::size_t>(index)];
      ++drawn[label];
      if (label == 4) of_four.insert(index);
    }
  }
  EXPECT_EQ(drawn, (std::map<std::int32_t, int>{{0, 33}, {4, 33}, {7, 33}}));
  EXPECT_EQ(of_four.size(), 9u) << "all of a class before one comes again";

  // Ranks and positions as ever.
  BatchSampler half = BatchSampler::balanced(labels, 33, 5);
  half.seek(sampler.position());
  auto joined = half.next(0, 2);
  BatchSampler other = BatchSampler::balanced(labels, 33, 5);
  other.seek(sampler.position());
  const auto second = other.next(1, 2);
  joined.insert(joined.end(), second.begin(), second.end());
  EXPECT_EQ(joined, sampler.next(0, 1));
}

TEST(Sampler, GoesOnFromASavedPosition) {
  BatchSampler sampler(10, 4, 7);
  for (int step = 0; step < 4; ++step) sampler.next(0, 1);
  const BatchPosition position = sampler.position();
  EXPECT_EQ(position, (BatchPosition{1, 6}));
  BatchSampler resumed(10, 4, 7);
  resumed.seek(position);
  for (int step = 0; step < 6; ++step) EXPECT_EQ(resumed.next(0, 1), sampler.next(0, 1));
}

TEST(Sampler, ABatchMayExceedTheDataset) {
  BatchSampler sampler(3, 8, 1);
  EXPECT_EQ(sampler.next(0, 1).size(), 8u);
  EXPECT_EQ(sampler.position(), (BatchPosition{2, 2}));
}

// Sample i about n·p_i times: the whole part for certain.
TEST(Sampler, WeightedDrawsEachSampleAsOftenAsItsWeightSays) {
  std::vector<double> probabilities(100, 0.005);
  for (std::size_t i = 90; i < 100; ++i) probabilities[i] = 0.055;  // 5.5 times in an epoch
  std::vector<std::int64_t> sums(100);
  constexpr int kEpochs = 200;
  BatchSampler sampler = BatchSampler::weighted(probabilities, 100, 7);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<std::int64_t> times(100);
    for (const std::int64_t sample : sampler.next(0, 1)) ++times[static_cast<std::size_t>(sample)];
    for (std::size_t i = 0; i < 100; ++i) {
      EXPECT_GE(times[i], i < 90 ? 0 : 5);
      EXPECT_LE(times[i], i < 90 ? 1 : 6);
      sums[i] += times[i];
    }
  }
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_NEAR(static_cast<double>(sums[i]) / kEpochs, 100 * probabilities[i], 0.15) << i;
}

TEST(Sampler, WeightedEquallyIsEverySampleOnce) {
  BatchSampler sampler = BatchSampler::weighted(std::vector<double>(64, 1.0 / 64), 64, 3);
  for (int epoch = 0; epoch < 5; ++epoch) {
    std::vector<std::int64_t> order = sampler.next(0, 1);
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
    std::sort(order.begin(), order.end());
    for (std::int64_t i = 0; i < 64; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
}

TEST(Sampler, WeightedShardsMakeTheSameBatch) {
  std::vector<double> probabilities(10, 0.05);
  probabilities[4] = 0.55;
  BatchSampler whole = BatchSampler::weighted(probabilities, 7, 5);
  BatchSampler first = BatchSampler::weighted(probabilities, 7, 5);
  BatchSampler second = BatchSampler::weighted(probabilities, 7, 5);
  for (int step = 0; step < 6; ++step) {
    std::vector<std::int64_t> parts = first.next(0, 2);
    const std::vector<std::int64_t> rest = second.next(1, 2);
    parts.insert(parts.end(), rest.begin(), rest.end());
    EXPECT_EQ(parts, whole.next(0, 1));
  }
}

}  // namespace
}  // namespace fedqueue
