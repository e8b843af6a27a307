#include "fedclient/data/loader.h"

#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <memory>

#include "files.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;

LoaderOptions with_threads(int threads) {
  LoaderOptions options;
  options.threads = threads;
  options.augmentation.flip = true;
  options.augmentation.crop = 1;
  return options;
}

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.samples, b.samples);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.targets, b.targets);
}

TEST(Loader, GivesTheSameBatchesWhateverItsThreads) {
  const Dataset dataset = counted_dataset(23, 4);
  BatchLoader alone(dataset, BatchSampler(23, 8, 42), with_threads(0));
  BatchLoader one(dataset, BatchSampler(23, 8, 42), with_threads(1));
  BatchLoader five(dataset, BatchSampler(23, 8, 42), with_threads(5));
  for (int step = 0; step < 60; ++step) {
    const Result<Batch> expected = alone.next();
    ASSERT_TRUE(expected);
    EXPECT_EQ(expected->samples, 8);
    expect_equal(*expected, *one.next());
    expect_equal(*expected, *five.next());
    EXPECT_EQ(one.position(), alone.position());
    EXPECT_EQ(five.position(), alone.position());
  }
}

TEST(Loader, TheRanksPartsAreTheBatchOfOneRank) {
  const Dataset dataset = counted_dataset(23, 4);
  BatchLoader whole(dataset, BatchSampler(23, 8, 42), with_threads(1));
  std::vector<std::unique_ptr<BatchLoader>> parts;
  for (int rank = 0; rank < 3; ++rank) {
    LoaderOptions options = with_threads(2);
    options.rank = rank;
    options.ranks = 3;
    parts.push_back(std::make_unique<BatchLoader>(dataset, BatchSampler(23, 8, 42), options));
  }
  for (int step = 0; step < 20; ++step) {
    const Batch expected = *whole.next();
    Batch joined;
    for (auto& part : parts) {
      const Batch own = *part->next();
      joined.values.insert(joined.values.end(), own.values.begin(), own.values.end());
      joined.targets.insert(joined.targets.end(), own.targets.begin(), own.targets.end());
    }
    EXPECT_EQ(joined.values, expected.values);
    EXPECT_EQ(joined.targets, expected.targets);
  }
}

TEST(Loader, ItsPositionIsThatOfWhatWasTaken) {
  const Dataset dataset = counted_dataset(23, 4);
  BatchSampler sampler(23, 8, 42);
  BatchLoader loader(dataset, sampler, with_threads(3));
  EXPECT_EQ(loader.position(), sampler.position());
  for (int step = 0; step < 7; ++step) {
    ASSERT_TRUE(loader.next());
    (void)sampler.next(0, 1);
    EXPECT_EQ(loader.position(), sampler.position());
  }
  // Another that begins there goes on with the batches that had been prepared and not taken.
  BatchSampler there(23, 8, 42);
  there.seek(loader.position());
  BatchLoader resumed(dataset, there, with_threads(0));
  for (int step = 0; step < 7; ++step) expect_equal(*resumed.next(), *loader.next());
}

TEST(Loader, KeepsABoundedNumberOfBatchesAndEndsAtAnyMoment) {
  const Dataset dataset = counted_dataset(23, 4);
  for (int threads = 0; threads < 6; ++threads) {
    for (int taken = 0; taken < 4; ++taken) {
      BatchLoader loader(dataset, BatchSampler(23, 8, 42), with_threads(threads));
      EXPECT_EQ(loader.batches_ahead(), 2 * threads);
      for (int step = 0; step < taken; ++step) ASSERT_TRUE(loader.next());
    }
  }
}

TEST(Loader, ABrokenSampleIsAnErrorOfItsOwnBatch) {
  std::vector<float> values(16, 1);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  Dataset dataset;
  dataset.input = {{1}};
  dataset.dtype = tensor::DType::f32;
  dataset.values = std::as_bytes(std::span(values));
  dataset.labels.assign(16, 0);
  dataset.classes = 1;
  for (const int threads : {0, 2}) {
    LoaderOptions options;
    options.threads = threads;
    BatchLoader loader(dataset, BatchSampler(16, 4, 1), options);
    int broken = 0;
    for (int step = 0; step < 4; ++step) {
      const Result<Batch> batch = loader.next();
      if (batch) continue;
      ++broken;
      EXPECT_EQ(batch.error().code, Code::data);
      EXPECT_THAT(batch.error().message, HasSubstr("sample 5 has a value that is not finite"));
    }
    EXPECT_EQ(broken, 1);
  }
}

}  // namespace
}  // namespace fedqueue
