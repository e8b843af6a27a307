#include "simulation/federation/site_queue.h"

#include <gtest/gtest.h>

#include <set>

#include "simulation/federation/queues.h"

namespace fedqueue::simulation {
namespace {

using Kind = QueueChange::Kind;

std::unique_ptr<BatchQueue> drawn(double wait_s) {
  return queue_of(std::make_shared<FixedWaits>(wait_s));
}

TEST(SiteQueue, OurJobsWaitForThoseOfOthersAndEndAtTheirLimit) {
  BackgroundJob other;
  other.submit_s = 0;
  other.request.nodes = 2;
  other.request.limit_s = 20;
  other.request.run_s = 12;
  other.request.user = 1;
  SiteConfig config;
  config.nodes = 2;
  SiteQueue queue(std::make_unique<SimulatedSite>(config, std::vector{other}), 2);
  (void)queue.advance(1);
  const auto job = queue.submit(5, 1);
  ASSERT_TRUE(job);
  EXPECT_EQ(queue.expected_wait_s(*job, 1), 19) << "the other's whole limit";
  const auto changes = queue.advance(100);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].kind, Kind::started);
  EXPECT_EQ(changes[0].at_s, 12);
  EXPECT_EQ(changes[1].kind, Kind::ended_at_limit);
  EXPECT_EQ(changes[1].at_s, 17);
}

TEST(SiteQueue, WhatTheCallerEndedIsNotToldBack) {
  SiteConfig config;
  config.nodes = 1;
  SiteQueue queue(std::make_unique<SimulatedSite>(config, std::vector<BackgroundJob>()), 1);
  const auto first = queue.submit(50, 0);
  const auto second = queue.submit(50, 0);
  ASSERT_TRUE(first && second);
  ASSERT_EQ(queue.advance(1).size(), 1u);
  queue.finish(*first, 10);
  const auto changes = queue.advance(10);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].job, *second);
  queue.cancel(*second, 11);
  EXPECT_TRUE(queue.advance(12).empty());
}

TEST(RuledQueue, ASiteThatAllowsOneJobRefusesTheNextForNow) {
  SiteRules rules;
  rules.jobs_max = 1;
  rules.limit_max_s = 100;
  RuledQueue queue(drawn(2), rules, 1);
  EXPECT_EQ(queue.submit(101, 0).error().code, Code::scheduler_refused);
  const auto job = queue.submit(50, 0);
  ASSERT_TRUE(job);
  EXPECT_EQ(queue.submit(50, 1).error().code, Code::scheduler_limit);
  (void)queue.advance(3);
  queue.finish(*job, 10);
  EXPECT_TRUE(queue.submit(50, 10));
}

TEST(RuledQueue, EveryJobDiesWithinItsLimitIfThatIsTheRate) {
  SiteRules rules;
  rules.failure_rate = 1;
  RuledQueue queue(drawn(2), rules, 3);
  const auto job = queue.submit(50, 0);
  ASSERT_TRUE(job);
  std::vector<QueueChange> changes;
  while (const auto next = queue.next_event_s())
    for (const QueueChange& change : queue.advance(*next)) changes.push_back(change);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].kind, Kind::started);
  EXPECT_EQ(changes[1].kind, Kind::preempted);
  EXPECT_GE(changes[1].at_s, 2);
  EXPECT_LT(changes[1].at_s, 52);
}

TEST(RuledQueue, AboutAsManyJobsDieAsTheRateSays) {
  SiteRules rules;
  rules.failure_rate = 0.25;
  RuledQueue queue(drawn(0), rules, 5);
  int died = 0;
  double now = 0;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(queue.submit(10, now));
    now += 20;
    for (const QueueChange& change : queue.advance(now)) died += change.kind == Kind::preempted;
  }
  EXPECT_NEAR(died, 250, 45);
}

TEST(MakeQueue, FacilitiesBeginAtDifferentPlacesOfALogThatIsShorterThanTheExperiment) {
  Setting setting;
  setting.world = WorldKind::replay;
  setting.trace = "log";
  setting.time_scale = 1;
  SwfLog log;
  for (int i = 0; i < 100; ++i) {
    SwfJob job;
    job.submit_s = i;
    job.wait_s = 1 + i;
    job.processors = 1;
    log.jobs.push_back(job);
  }
  const Logs logs{{"log", log}};
  std::set<double> starts;
  for (int facility = 0; facility < 4; ++facility) {
    const auto queue = make_queue(setting, facility, 1, logs);
    ASSERT_TRUE(queue);
    ASSERT_TRUE((*queue)->submit(10, 0));
    starts.insert((*queue)->next_event_s().value());
  }
  EXPECT_EQ(starts.size(), 4u);
}

}  // namespace
}  // namespace fedqueue::simulation
