#include "fedclient/data/partition.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace fedqueue {
namespace {

std::vector<std::int32_t> labels(int n, int classes) {
  std::vector<std::int32_t> out;
  for (int i = 0; i < n; ++i) out.push_back(i % classes);
  return out;
}

// Every sample in exactly one part.
void expect_exact_cover(const Partition& parts, std::int64_t samples) {
  std::vector<std::int64_t> all;
  for (const auto& part : parts) {
    EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(static_cast<std::int64_t>(all.size()), samples);
  for (std::int64_t i = 0; i < samples; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
}

// The mean over parts of the share of its most frequent class: 1/classes is even, 1 is one class.
double concentration(const Partition& parts, const std::vector<std::int32_t>& all, int classes) {
  double sum = 0;
  for (const auto& part : parts) {
    std::vector<int> counts(static_cast<std::size_t>(classes));
    for (const auto index : part) ++counts[all[static_cast<std::size_t>(index)]];
    sum += *std::max_element(counts.begin(), counts.end()) / static_cast<double>(part.size());
  }
  return sum / static_cast<double>(parts.size());
}

TEST(Partition, EvenPartsDifferByAtMostOneSample) {
  const Result<Partition> parts = partition_evenly(1003, {7, 5, 1});
  ASSERT_TRUE(parts);
  expect_exact_cover(*parts, 1003);
  for (const auto& part : *parts) EXPECT_THAT(part.size(), ::testing::AnyOf(143u, 144u));
}

TEST(Partition, DirichletGivesEverySampleToOneFacilityAndNobodyNothing) {
  const auto all = labels(2000, 10);
  for (const double alpha : {1e-6, 0.05, 0.3, 1.0, 1000.0}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Result<Partition> parts = partition_dirichlet(all, alpha, {20, seed, 5});
      ASSERT_TRUE(parts);
      ASSERT_EQ(parts->size(), 20u);
      expect_exact_cover(*parts, 2000);
      for (const auto& part : *parts) EXPECT_GE(part.size(), 5u);
    }
  }
}

TEST(Partition, SmallAlphaConcentratesTheClasses) {
  const auto all = labels(10000, 10);
  const auto at = [&](double alpha) {
    return concentration(*partition_dirichlet(all, alpha, {8, 3, 1}), all, 10);
  };
  EXPECT_GT(at(0.1), at(1.0));
  EXPECT_GT(at(1.0), at(1000.0));
  EXPECT_NEAR(at(1e5), 0.1, 0.01);
}

TEST(Partition, ShardsGiveEachFacilityFewLabels) {
  const auto all = labels(2000, 10);
  const Result<Partition> parts = partition_shards(all, 2, {10, 3, 1});
  ASSERT_TRUE(parts);
  expect_exact_cover(*parts, 2000);
  for (const auto& part : *parts) {
    EXPECT_EQ(part.size(), 200u);
    std::set<int> seen;
    for (const std::int64_t index : part) seen.insert(all[static_cast<std::size_t>(index)]);
    EXPECT_LE(seen.size(), 4u);
  }
  EXPECT_EQ(partition_shards(all, 0, {10, 3, 1}).error().code, Code::usage);
  EXPECT_EQ(partition_shards(labels(20, 2), 3, {10, 3, 1}).error().code, Code::usage);
}

TEST(Partition, TheSeedDecides) {
  const auto all = labels(500, 5);
  EXPECT_EQ(*partition_dirichlet(all, 0.3, {4, 9, 1}), *partition_dirichlet(all, 0.3, {4, 9, 1}));
  EXPECT_NE(*partition_dirichlet(all, 0.3, {4, 9, 1}), *partition_dirichlet(all, 0.3, {4, 10, 1}));
  EXPECT_NE(*partition_evenly(500, {4, 1, 1}), *partition_evenly(500, {4, 2, 1}));
}

TEST(Partition, TooFewSamplesAreAnError) {
  EXPECT_EQ(partition_evenly(3, {4, 1, 1}).error().code, Code::data);
  EXPECT_EQ(partition_dirichlet(labels(39, 3), 0.3, {4, 1, 10}).error().code, Code::data);
  EXPECT_EQ(partition_dirichlet(labels(39, 3), -1, {4, 1, 1}).error().code, Code::usage);
  EXPECT_EQ(partition_evenly(3, {0, 1, 1}).error().code, Code::usage);
}

}  // namespace
}  // namespace fedqueue
