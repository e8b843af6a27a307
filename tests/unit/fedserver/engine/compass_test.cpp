// FedCompass in a run: groups come from journalled facts, and their latest time is a timer.
#include <gtest/gtest.h>

#include "tests/unit/fedserver/engine/scenario.h"

namespace fedqueue::test {
namespace {

EngineConfig compass_config() {
  EngineConfig config = corrected_config();
  config.policy.policy = PolicyKind::fedcompass;
  config.policy.segments_per_job = 0;
  config.policy.t_sync_s = 1000;
  config.lease_s = 5000;
  return config;
}

// Facilities whose first update, 20 steps, is in at a given time, and whose jobs go on.
class Compass {
 public:
  explicit Compass(const std::vector<std::string>& names) : run(compass_config(), names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      jobs[names[i]] = run.start(names[i], std::to_string(i + 1) + ".0", 0);
      attempts[names[i]] = std::to_string(i + 1) + ".0";
    }
  }

  // The update of the facility's segment arrives at `at_s`; what comes next when it is published.
  UpdateAnswer deliver(const std::string& name, double at_s) {
    run.now = Instant(from_seconds(at_s));
    last[name] = run.deliver(name, attempts[name], jobs[name]);
    return last[name];
  }
  Segment next_of(const std::string& name) {
    const UpdateAnswer answer = run.ask<UpdateAnswer>(UpdateAsked{FacilityId(name), last[name].id});
    jobs[name].next = answer.next;
    EXPECT_EQ(answer.next.kind, Next::Kind::segment) << answer.next.reason;
    return answer.next.segment;
  }

  Scenario run;
  std::map<std::string, JobAnswer> jobs;
  std::map<std::string, std::string> attempts;
  std::map<std::string, UpdateAnswer> last;
};

TEST(Compass, FirstUpdatesCountAloneAndGroupsFormAsInTheWorkedExample) {
  Compass compass({"a", "b", "c"});
  EXPECT_EQ(compass.jobs["a"].next.segment.local_steps, 20);
  // 1, 1.6 and 2 s per step would be 20, 32 and 40 s; the example's clock starts at 100.
  compass.deliver("a", 20);
  ASSERT_EQ(compass.run.reduces.size(), 1u) << "alone and at once";
  EXPECT_EQ(compass.run.reduces[0].plan.updates.size(), 1u);
  compass.run.finish_reduce();
  EXPECT_EQ(compass.next_of("a").local_steps, 100);  // expected 120, latest 170

  compass.deliver("b", 32);
  compass.run.finish_reduce();
  EXPECT_EQ(compass.next_of("b").local_steps, 55);  // ⌊(120 − 32)/1.6⌋

  compass.deliver("c", 40);
  compass.run.finish_reduce();
  EXPECT_EQ(compass.next_of("c").local_steps, 40);  // ⌊(120 − 40)/2⌋
  EXPECT_EQ(compass.run.engine.state().groups.size(), 1u);
}

TEST(Compass, AGroupIsAggregatedTogetherAndPlacedAnewFastestFirst) {
  Compass compass({"a", "b"});
  compass.deliver("a", 20);
  compass.run.finish_reduce();
  compass.next_of("a");
  compass.deliver("b", 32);
  compass.run.finish_reduce();
  compass.next_of("b");
  EXPECT_EQ(compass.deliver("b", 119).next.kind, Next::Kind::wait);
  EXPECT_EQ(compass.run.reduces.size(), 2u) << "a is not in yet";
  compass.deliver("a", 120);
  ASSERT_EQ(compass.run.reduces.size(), 3u);
  EXPECT_EQ(compass.run.reduces[2].plan.updates.size(), 2u);
  EXPECT_EQ(compass.run.reduces[2].plan.closed_groups, std::vector<std::int64_t>{0});
  compass.run.finish_reduce();
  // The fastest opened the new group, whoever asks first.
  EXPECT_EQ(compass.next_of("b").base, 3);
  EXPECT_EQ(compass.next_of("a").local_steps, 100);
  const auto& facilities = compass.run.engine.state().facilities;
  EXPECT_EQ(facilities.at(FacilityId("a")).attempts.begin()->second.place.group, 1);
  EXPECT_EQ(facilities.at(FacilityId("b")).attempts.begin()->second.place.group, 1);
}

TEST(Compass, AtTheLatestTimeTheTimerFiresAndTheMissingOneIsLate) {
  Compass compass({"a", "b"});
  compass.deliver("a", 20);
  compass.run.finish_reduce();
  compass.next_of("a");
  compass.deliver("b", 32);
  compass.run.finish_reduce();
  compass.next_of("b");
  compass.deliver("b", 119);
  ASSERT_TRUE(compass.run.engine.next_wakeup());
  EXPECT_EQ(*compass.run.engine.next_wakeup(), Instant(from_seconds(170)));
  compass.run.now = Instant(from_seconds(170));
  compass.run.send(Tick{});
  ASSERT_EQ(compass.run.reduces.size(), 3u);
  EXPECT_EQ(compass.run.reduces[2].plan.updates.size(), 1u);
  compass.run.finish_reduce();
  compass.next_of("b");
  const UpdateAnswer late = compass.deliver("a", 180);
  EXPECT_TRUE(late.late);
  ASSERT_EQ(late.next.kind, Next::Kind::segment) << "answered at once";
  EXPECT_EQ(late.next.segment.base, 3);
  EXPECT_EQ(compass.run.reduces.size(), 3u) << "it counts with the next group";
}

TEST(Compass, AFailedMemberIsNotWaitedFor) {
  Compass compass({"a", "b"});
  compass.deliver("a", 20);
  compass.run.finish_reduce();
  compass.next_of("a");
  compass.deliver("b", 32);
  compass.run.finish_reduce();
  compass.next_of("b");
  compass.deliver("b", 119);
  compass.run.leave("a", "1.0", "NODE_FAIL");
  EXPECT_EQ(compass.run.reduces.size(), 3u);
}

TEST(Compass, APlannedJobHasItsPlaceFromThePlanOn) {
  EngineConfig config = compass_config();
  config.policy.segments_per_job = 1;
  Scenario run(config, {"a"});
  run.plan("a", "k1");
  run.pass(10);  // in the queue
  const JobAnswer first = run.start("a", "1.0", 10, "k1");
  run.pass(10);
  run.deliver("a", "1.0", first);
  run.finish_reduce();
  run.leave("a", "1.0", "COMPLETED");
  // 20 steps took 20 s with the wait: a pace of 1 s.
  EXPECT_EQ(run.plan("a", "k2").local_steps, 100);
  const auto& groups = run.engine.state().groups;
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_DOUBLE_EQ(groups.begin()->second.expected_s, 120);
  EXPECT_DOUBLE_EQ(groups.begin()->second.latest_s, 170);
  run.pass(10);
  EXPECT_EQ(run.start("a", "2.0", 10, "k2").next.segment.local_steps, 100);
  EXPECT_EQ(run.engine.state().groups.size(), 1u);
}

}  // namespace
}  // namespace fedqueue::test
