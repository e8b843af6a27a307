// Schedules worked out by hand.
#include "simulation/queues/site.h"

#include <gtest/gtest.h>

#include <string>

namespace fedqueue::simulation {
namespace {

using Kind = SiteChange::Kind;

SiteConfig nodes(std::int64_t count) {
  SiteConfig config;
  config.nodes = count;
  return config;
}

SiteRequest request(std::int64_t count, double limit_s, std::optional<double> run_s = {}) {
  SiteRequest result;
  result.nodes = count;
  result.limit_s = limit_s;
  result.run_s = run_s;
  return result;
}

BackgroundJob other(double submit_s, std::int64_t count, double limit_s, double run_s,
                    std::int64_t user = 1) {
  BackgroundJob job;
  job.submit_s = submit_s;
  job.request = request(count, limit_s, run_s);
  job.request.user = user;
  return job;
}

SiteJobId submitted(SimulatedSite& site, const SiteRequest& what, double at_s) {
  const auto id = site.submit(what, at_s);
  EXPECT_TRUE(id) << id.error().message;
  return id ? *id : 0;
}

TEST(SimulatedSite, AnEmptySiteStartsAJobAtOnce) {
  SimulatedSite site(nodes(4), {});
  const SiteJobId job = submitted(site, request(4, 100, 30), 5);
  const auto changes = site.advance(100);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].job, job);
  EXPECT_EQ(changes[0].kind, Kind::started);
  EXPECT_EQ(changes[0].at_s, 5);
  EXPECT_EQ(changes[1].kind, Kind::ended);
  EXPECT_EQ(changes[1].at_s, 35);
  EXPECT_EQ(site.use().own_node_seconds, 120);
}

TEST(SimulatedSite, FirstComeFirstServed) {
  // 4 nodes: a (3 nodes, 0–10), b (2 nodes) waits for it, c (2 nodes) starts beside b.
  SimulatedSite site(nodes(4), {});
  submitted(site, request(3, 10, 10), 0);
  const SiteJobId b = submitted(site, request(2, 10, 10), 1);
  const SiteJobId c = submitted(site, request(2, 20, 20), 2);
  (void)site.advance(100);
  EXPECT_EQ(site.started_s(b), 10);
  EXPECT_EQ(site.started_s(c), 10);
}

TEST(SimulatedSite, AShortJobIsBackfilledBeforeTheHeadJobsReservation) {
  // a has 3 of 4 nodes until 10. The head b wants 4: reserved at 10. c (1 node, limit 6) at 3 ends
  // by 9 and starts at once; d (1 node, limit 8) at 3 would end at 11 and must wait for b.
  SimulatedSite site(nodes(4), {});
  submitted(site, request(3, 10, 10), 0);
  const SiteJobId b = submitted(site, request(4, 10, 10), 1);
  const SiteJobId c = submitted(site, request(1, 6, 6), 3);
  const SiteJobId d = submitted(site, request(1, 8, 8), 3);
  (void)site.advance(100);
  EXPECT_EQ(site.started_s(c), 3);
  EXPECT_EQ(site.started_s(b), 10) << "the reservation held";
  EXPECT_EQ(site.started_s(d), 20);
}

TEST(SimulatedSite, ALongJobIsBackfilledOnNodesTheHeadJobWillNotNeed) {
  // a has 3 of 5 nodes until 10, head b wants 4: at 10 five are free, one to spare. c takes that
  // one for long; d, as small and as long, finds none left.
  SimulatedSite site(nodes(5), {});
  submitted(site, request(3, 10, 10), 0);
  const SiteJobId b = submitted(site, request(4, 10, 10), 1);
  const SiteJobId c = submitted(site, request(1, 50, 50), 2);
  const SiteJobId d = submitted(site, request(1, 50, 50), 2);
  (void)site.advance(100);
  EXPECT_EQ(site.started_s(c), 2);
  EXPECT_EQ(site.started_s(b), 10);
  EXPECT_EQ(site.started_s(d), 20);
}

TEST(SimulatedSite, ReservationsRestOnLimitsAndStartsOnWhatReallyHappened) {
  // a asked for 100 and needs 10. c (limit 60) is backfilled against the reservation at 100; the
  // head b starts when a really ends and enough nodes are free: at 61.
  SimulatedSite site(nodes(4), {});
  submitted(site, request(3, 100, 10), 0);
  const SiteJobId b = submitted(site, request(4, 10, 10), 1);
  const SiteJobId c = submitted(site, request(1, 60, 60), 1);
  (void)site.advance(200);
  EXPECT_EQ(site.started_s(c), 1);
  EXPECT_EQ(site.started_s(b), 61);
}

TEST(SimulatedSite, WithoutBackfillNothingOvertakes) {
  SiteConfig config = nodes(4);
  config.backfill = false;
  SimulatedSite site(config, {});
  submitted(site, request(3, 10, 10), 0);
  submitted(site, request(4, 10, 10), 1);
  const SiteJobId c = submitted(site, request(1, 5, 5), 2);
  (void)site.advance(100);
  EXPECT_EQ(site.started_s(c), 20);
}

TEST(SimulatedSite, AJobIsKilledAtItsLimit) {
  SimulatedSite site(nodes(1), {});
  const SiteJobId endless = submitted(site, request(1, 25), 0);
  const auto changes = site.advance(100);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[1].job, endless);
  EXPECT_EQ(changes[1].kind, Kind::killed_at_limit);
  EXPECT_EQ(changes[1].at_s, 25);
}

TEST(SimulatedSite, AFinishedJobFreesItsNodesForTheNext) {
  SimulatedSite site(nodes(1), {});
  const SiteJobId first = submitted(site, request(1, 100), 0);
  const SiteJobId second = submitted(site, request(1, 100), 1);
  (void)site.advance(40);
  site.finish(first, 40);
  const auto changes = site.advance(40);
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].kind, Kind::ended);
  EXPECT_EQ(changes[1].job, second);
  EXPECT_EQ(changes[1].at_s, 40);
}

TEST(SimulatedSite, ACancelledJobLeavesTheQueueAndIsReported) {
  SimulatedSite site(nodes(1), {});
  submitted(site, request(1, 100, 50), 0);
  const SiteJobId waiting = submitted(site, request(1, 100, 50), 1);
  const SiteJobId last = submitted(site, request(1, 100, 50), 2);
  (void)site.advance(10);
  site.cancel(waiting, 10);
  site.cancel(waiting, 10);  // once more: nothing
  const auto changes = site.advance(60);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(changes[0].job, waiting);
  EXPECT_EQ(changes[0].kind, Kind::ended);
  EXPECT_EQ(site.started_s(waiting), std::nullopt);
  EXPECT_EQ(site.started_s(last), 50);
}

TEST(SimulatedSite, OurJobsQueueBehindThoseOfOthers) {
  SimulatedSite site(nodes(2), {other(-10, 2, 30, 20), other(1, 2, 30, 5)});
  (void)site.advance(0);
  const SiteJobId ours = submitted(site, request(1, 100, 10), 2);
  (void)site.advance(100);
  EXPECT_EQ(site.started_s(ours), 15) << "10 from the first, 5 more from the second";
  EXPECT_EQ(site.use().background_node_seconds, 50);
  EXPECT_EQ(site.use().background_started, 2);
}

TEST(SimulatedSite, ABonusCountsAsSecondsOfAge) {
  SimulatedSite site(nodes(1), {other(0, 1, 20, 20), other(5, 1, 20, 20)});
  (void)site.advance(9);
  SiteRequest favoured = request(1, 10, 10);
  favoured.priority_bonus_s = 6;
  const SiteJobId ours = submitted(site, favoured, 10);
  (void)site.advance(100);
  EXPECT_EQ(site.started_s(ours), 20) << "10 − 6 is before 5";
}

TEST(SimulatedSite, JobsBeyondTheUsersLimitGainNoAge) {
  // One eligible job per user. Ours: a runs; b is eligible, c is held until b starts at 10 and is
  // then younger than the other user's job of time 3.
  SiteConfig config = nodes(1);
  config.eligible_jobs_max = 1;
  SimulatedSite site(config, {other(3, 1, 10, 10)});
  submitted(site, request(1, 10, 10), 0);
  const SiteJobId b = submitted(site, request(1, 10, 10), 1);
  const SiteJobId c = submitted(site, request(1, 10, 10), 2);
  (void)site.advance(100);
  EXPECT_EQ(site.started_s(b), 10);
  EXPECT_EQ(site.started_s(c), 30) << "the other job has 20–30";
}

TEST(SimulatedSite, LimitsOfTheSiteAreTold) {
  SiteConfig config = nodes(2);
  config.submitted_jobs_max = 1;
  config.limit_max_s = 100;
  SimulatedSite site(config, {});
  EXPECT_EQ(site.submit(request(3, 10), 0).error().code, Code::scheduler_refused);
  EXPECT_EQ(site.submit(request(1, 101), 0).error().code, Code::scheduler_refused);
  EXPECT_EQ(site.submit(request(1, 0), 0).error().code, Code::scheduler_refused);
  submitted(site, request(1, 100, 50), 0);
  EXPECT_EQ(site.submit(request(1, 10), 1).error().code, Code::scheduler_limit);
  (void)site.advance(50);
  EXPECT_TRUE(site.submit(request(1, 10), 51));
}

TEST(SimulatedSite, TheExpectedStartServesTheQueueInOrder) {
  // 2 nodes: a has both until its limit 100; b (2 nodes, limit 30) follows, then ours at 130.
  SimulatedSite site(nodes(2), {other(0, 2, 100, 10), other(1, 2, 30, 10)});
  (void)site.advance(2);
  const SiteJobId ours = submitted(site, request(1, 10, 10), 2);
  EXPECT_EQ(site.expected_start_s(ours), 130);
  (void)site.advance(100);
  EXPECT_EQ(site.started_s(ours), 20);
  EXPECT_EQ(site.expected_start_s(ours), std::nullopt);
}

TEST(SimulatedSite, NextEventLeadsThroughTheWholeSchedule) {
  SimulatedSite site(nodes(1), {other(4, 1, 10, 6)});
  submitted(site, request(1, 3, 3), 0);
  std::string times;
  while (const auto next = site.next_event_s()) {
    (void)site.advance(*next);
    times += std::to_string(static_cast<int>(*next)) + " ";
  }
  EXPECT_EQ(times, "0 3 4 10 ");
  EXPECT_EQ(site.free_nodes(), 1);
}

}  // namespace
}  // namespace fedqueue::simulation
