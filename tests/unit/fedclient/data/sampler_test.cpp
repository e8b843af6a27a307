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

}  // namespace
}  // namespace fedqueue
