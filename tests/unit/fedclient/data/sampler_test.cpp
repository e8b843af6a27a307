#include "fedclient/data/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>

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
