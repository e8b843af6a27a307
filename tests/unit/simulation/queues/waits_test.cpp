#include "simulation/queues/waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace fedqueue::simulation {
namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
  double median = 0;
  double quantile_95 = 0;
  double beyond = 0;  // share above rho + 2
};

Moments moments_of(double rho, double sigma) {
  LogNormalWaits waits(rho, sigma, 7);
  std::vector<double> draws(400000);
  for (double& draw : draws) draw = waits.next_wait_s(0);
  std::sort(draws.begin(), draws.end());
  Moments result;
  for (const double draw : draws) result.mean += draw;
  const auto count = static_cast<double>(draws.size());
  result.mean /= count;
  for (const double draw : draws) result.deviation += std::pow(draw - result.mean, 2);
  result.deviation = std::sqrt(result.deviation / count);
  result.median = draws[draws.size() / 2];
  result.quantile_95 = draws[draws.size() * 95 / 100];
  result.beyond =
      static_cast<double>(draws.end() - std::upper_bound(draws.begin(), draws.end(), rho + 2)) /
      count;
  return result;
}

// The expected figures are those of the closed forms for rho = 2.
TEST(LogNormalWaits, HaveTheMomentsOfTheReferenceSimulator) {
  EXPECT_NEAR(LogNormalWaits(2, 0.4, 1).mu(), 0.6131471806, 1e-9);
  const Moments calm = moments_of(2, 0.4);
  EXPECT_NEAR(calm.mean, 2, 0.01);
  EXPECT_NEAR(calm.median, 1.8462326928, 0.01);
  EXPECT_NEAR(calm.quantile_95, 3.5647311288, 0.03);
  EXPECT_NEAR(calm.deviation, 0.8330927223, 0.01);
  EXPECT_NEAR(calm.beyond, 0.0266262334, 0.002);

  EXPECT_NEAR(LogNormalWaits(2, 1.0, 1).mu(), 0.1931471806, 1e-9);
  const Moments wild = moments_of(2, 1.0);
  EXPECT_NEAR(wild.mean, 2, 0.03);
  EXPECT_NEAR(wild.median, 1.2130613194, 0.01);
  EXPECT_NEAR(wild.quantile_95, 6.2839628436, 0.1);
  EXPECT_NEAR(wild.deviation, 2.6216649889, 0.15);
  EXPECT_NEAR(wild.beyond, 0.1164058683, 0.003);
}

TEST(LogNormalWaits, TheSameSeedGivesTheSameWaits) {
  LogNormalWaits first(0.9, 1.5, 42);
  LogNormalWaits again(0.9, 1.5, 42);
  LogNormalWaits other(0.9, 1.5, 43);
  const double wait = first.next_wait_s(0);
  EXPECT_EQ(wait, again.next_wait_s(0));
  EXPECT_NE(wait, other.next_wait_s(0));
}

TEST(LogNormalWaits, AMeanOfNothingIsTheFloorAndNotAnError) {
  LogNormalWaits waits(0, 0, 1);
  EXPECT_NEAR(waits.next_wait_s(0), 1e-6, 1e-15);
}

TEST(FixedWaits, AreWhatTheyAreAndNeverNegative) {
  EXPECT_EQ(FixedWaits(3.5).next_wait_s(10), 3.5);
  EXPECT_EQ(FixedWaits(-1).next_wait_s(10), 0);
  EXPECT_EQ(NoWaits().next_wait_s(10), 0);
}

SwfLog log_of(const std::vector<std::pair<double, double>>& submit_and_wait) {
  SwfLog log;
  for (const auto& [submit_s, wait_s] : submit_and_wait) {
    SwfJob job;
    job.submit_s = submit_s;
    job.wait_s = wait_s;
    job.run_s = 1;
    job.processors = 1;
    log.jobs.push_back(job);
  }
  return log;
}

TEST(ReplayedWaits, AJobWaitsAsLongAsTheNextLoggedOne) {
  const auto waits = ReplayedWaits::create(log_of({{100, 5}, {200, 7}, {400, 11}}), {});
  ASSERT_TRUE(waits);
  EXPECT_EQ((*waits)->next_wait_s(0), 5);
  EXPECT_EQ((*waits)->next_wait_s(1), 7);
  EXPECT_EQ((*waits)->next_wait_s(100), 7);
  EXPECT_EQ((*waits)->next_wait_s(101), 11);
}

TEST(ReplayedWaits, AfterTheLogsEndItBeginsAnew) {
  const auto waits = ReplayedWaits::create(log_of({{100, 5}, {200, 7}, {400, 11}}), {});
  ASSERT_TRUE(waits);
  EXPECT_EQ((*waits)->span_s(), 450) << "300 s and the mean gap of 150 s";
  EXPECT_EQ((*waits)->next_wait_s(301), 5);
  EXPECT_EQ((*waits)->next_wait_s(451), 7);
}

TEST(ReplayedWaits, TimeScaleAndOffsetMapTheLogToVirtualTime) {
  ReplayOptions options;
  options.time_scale = 0.01;
  options.offset_s = 50;
  const auto waits = ReplayedWaits::create(log_of({{100, 500}, {200, 700}, {400, 1100}}), options);
  ASSERT_TRUE(waits);
  EXPECT_DOUBLE_EQ((*waits)->next_wait_s(0), 7);
  EXPECT_DOUBLE_EQ((*waits)->next_wait_s(1), 11) << "150 s after the first job of the log";
}

TEST(ReplayedWaits, OnlyJobsOfTheClassCount) {
  SwfLog log = log_of({{0, 5}, {1, 6}, {2, 7}});
  log.jobs[1].processors = 32;
  const auto common = ReplayedWaits::create(log, {});
  ASSERT_TRUE(common);
  EXPECT_EQ((*common)->jobs(), 2u) << "the most frequent class";
  ReplayOptions options;
  options.job_class = JobClass{-1, 5};
  const auto large = ReplayedWaits::create(log, options);
  ASSERT_TRUE(large);
  EXPECT_EQ((*large)->next_wait_s(0), 6);
  options.job_class = JobClass{-1, 9};
  EXPECT_FALSE(ReplayedWaits::create(log, options));
}

TEST(ReplayedWaits, ALogWithoutWaitsIsAnErrorThatNamesTheCure) {
  SwfLog log = log_of({{0, 5}});
  log.jobs[0].wait_s.reset();
  const auto waits = ReplayedWaits::create(log, {});
  ASSERT_FALSE(waits);
  EXPECT_NE(waits.error().cure.find("simulate the site"), std::string::npos);
}

}  // namespace
}  // namespace fedqueue::simulation
