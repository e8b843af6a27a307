// When rounds close, with what, and what happens when nothing arrives.
#include <nlohmann/json.hpp>

#include "scenario.h"

namespace fedqueue::test {
namespace {

TEST(Rounds, CloseWhenAllExpectedFacilitiesAreIn) {
  Scenario run(corrected_config());
  EXPECT_EQ(run.round_of("a", "1.0", 3).disposition, Disposition::counted);
  EXPECT_EQ(run.round_of("b", "2.0", 4).disposition, Disposition::counted);
  EXPECT_TRUE(run.reduces.empty());
  run.round_of("c", "3.0", 5);
  ASSERT_EQ(run.reduces.size(), 1u);
  EXPECT_EQ(run.reduces[0].plan.updates.size(), 3u);
  run.finish_reduce();
  EXPECT_EQ(run.engine.state().latest, 1);
  EXPECT_EQ(run.removed.size(), 3u);
}

TEST(Rounds, SumInAnOrderThatDoesNotDependOnArrival) {
  std::vector<std::vector<std::string>> orders = {{"a", "b", "c"}, {"c", "a", "b"}};
  std::vector<std::string> seen;
  for (const auto& order : orders) {
    Scenario run(corrected_config());
    for (const std::string& name : order)
      run.round_of(name, name == "a" ? "1.0" : name == "b" ? "2.0" : "3.0", 3);
    ASSERT_EQ(run.reduces.size(), 1u);
    std::string ids;
    for (const ReduceInput& input : run.reduces[0].plan.updates) ids += input.id.str() + " ";
    seen.push_back(ids);
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(Rounds, CloseByTimerWithWhatIsThere) {
  Scenario run(corrected_config());
  run.round_of("a", "1.0", 3);
  run.plan("b", "kb");
  run.plan("c", "kc");
  run.tick_after(10);
  EXPECT_TRUE(run.reduces.empty());
  run.tick_after(110);
  ASSERT_EQ(run.reduces.size(), 1u);
  EXPECT_EQ(run.reduces[0].plan.updates.size(), 1u);
}

TEST(Rounds, AnEmptyTimerClosesNothingIsRearmedAndShowsAsStalled) {
  Scenario run(corrected_config());
  for (int i = 0; i < 3; ++i) run.tick_after(120);
  EXPECT_TRUE(run.reduces.empty());
  EXPECT_EQ(run.count("round-timed-out"), 3u);
  EXPECT_EQ(run.count("run-stalled"), 1u);
  EXPECT_NE(run.engine.state().stalled.find("a is"), std::string::npos);
  ASSERT_TRUE(run.engine.next_wakeup());
  run.round_of("a", "1.0", 3);
  EXPECT_TRUE(run.engine.state().stalled.empty());
  run.tick_after(120);
  EXPECT_EQ(run.reduces.size(), 1u);
}

TEST(Rounds, DoNotCloseBelowTheQuorum) {
  EngineConfig config = corrected_config();
  config.policy.quorum = 2;
  Scenario run(config);
  run.round_of("a", "1.0", 3);
  run.tick_after(120);
  EXPECT_TRUE(run.reduces.empty());
  run.round_of("b", "2.0", 3);
  run.tick_after(120);
  EXPECT_EQ(run.reduces.size(), 1u);
}

TEST(Rounds, DoNotWaitForAQueueThatIsLongerThanItsDeadline) {
  Scenario run(corrected_config());
  // Round 1 teaches that c waits 3 s; its deadline is then about 3 + 0.2·100 s.
  run.round_of("a", "1.0", 3);
  run.round_of("b", "2.0", 3);
  run.round_of("c", "3.0", 3);
  run.finish_reduce();
  for (const char* job : {"1.0", "2.0", "3.0"}) {
    run.leave(std::string(job) == "1.0" ? "a" : std::string(job) == "2.0" ? "b" : "c", job, "done");
  }
  run.round_of("a", "4.0", 3);
  run.round_of("b", "5.0", 3);
  const PlanAnswer late = run.plan("c", "kc");
  EXPECT_LT(late.deadline_wait_s, 30);
  run.tick_after(late.deadline_wait_s - 1);
  EXPECT_EQ(run.reduces.size(), 1u);
  run.tick_after(2);
  ASSERT_EQ(run.reduces.size(), 2u);
  run.finish_reduce();
  // When it comes at last, it counts in the round that is open then, as late and stale.
  const JobAnswer job = run.start("c", "6.0", 60, "kc");
  EXPECT_EQ(job.next.segment.base, 2) << "the wait itself makes nothing stale";
  const UpdateAnswer answer = run.deliver("c", "6.0", job);
  EXPECT_EQ(answer.disposition, Disposition::counted);
  EXPECT_TRUE(answer.late);
}

TEST(Rounds, SubmittingAndLaunchingAreNotTakenForQueueWait) {
  Scenario run(corrected_config(), {"a", "b"});
  // A plan of b takes 40 s to become a registered job, of which 5 s are the queue's.
  run.plan("b", "k1");
  run.pass(40);
  run.deliver("b", "1.0", run.start("b", "1.0", 5, "k1"));
  run.round_of("a", "2.0", 3);
  run.finish_reduce();
  run.leave("a", "2.0", "done");
  run.leave("b", "1.0", "done");
  const PlanAnswer plan = run.plan("b", "k2");
  run.round_of("a", "3.0", 3);
  run.tick_after(plan.deadline_wait_s + 30);
  EXPECT_EQ(run.reduces.size(), 1u) << "its queue wait may still be within the deadline";
  run.tick_after(10);
  EXPECT_EQ(run.reduces.size(), 2u);
}

TEST(Rounds, AFailedJobIsNotWaitedFor) {
  Scenario run(corrected_config());
  run.round_of("a", "1.0", 3);
  run.round_of("b", "2.0", 3);
  run.plan("c", "kc");
  run.start("c", "3.0", 3, "kc");
  EXPECT_TRUE(run.reduces.empty());
  run.leave("c", "3.0", "NODE_FAIL");
  ASSERT_EQ(run.reduces.size(), 1u);
  EXPECT_NE(run.engine.state().last_error.find("NODE_FAIL"), std::string::npos);
}

TEST(Rounds, UpdatesThatArriveWhileARoundIsPublishedCountInTheNext) {
  Scenario run(corrected_config());
  run.round_of("a", "1.0", 3);
  run.plan("b", "kb");
  const JobAnswer late = run.start("b", "2.0", 3, "kb");
  run.tick_after(120);  // c never came: closes with a alone, b's lease has run out
  ASSERT_EQ(run.reduces.size(), 1u);
  const UpdateAnswer answer = run.deliver("b", "2.0", late);
  EXPECT_EQ(answer.disposition, Disposition::buffered);
  run.finish_reduce();
  run.tick_after(120);
  ASSERT_EQ(run.reduces.size(), 2u);
  ASSERT_EQ(run.reduces[1].plan.updates.size(), 1u);
  EXPECT_EQ(run.reduces[1].plan.updates[0].staleness, 1);
}

// What is then too old for any round must not stand for its facility's part of the next one: nobody
// would plan for it again.
TEST(Rounds, AnUpdateThatGrewTooOldDuringAReductionDoesNotHoldItsFacility) {
  EngineConfig config = corrected_config();
  config.policy.staleness_max = 0;
  config.lease_s = config.contact_timeout_s = 1000;
  Scenario run(config, {"a", "b"});
  run.round_of("a", "1.0", 3);
  run.plan("b", "kb");
  const JobAnswer slow = run.start("b", "2.0", 3, "kb");
  run.tick_after(120);
  ASSERT_EQ(run.reduces.size(), 1u);
  const UpdateAnswer answer = run.deliver("b", "2.0", slow);
  EXPECT_EQ(answer.disposition, Disposition::buffered);
  run.finish_reduce();
  EXPECT_EQ(run.count("updates-dropped"), 1u);
  EXPECT_TRUE(run.removed.contains(answer.id));
  EXPECT_TRUE(run.engine.state().in_flight.empty());
  run.leave("a", "1.0", "done");
  run.leave("b", "2.0", "done");
  run.round_of("b", "3.0", 3);
  run.round_of("a", "4.0", 3);
  ASSERT_EQ(run.reduces.size(), 2u);
  EXPECT_EQ(run.reduces[1].plan.updates.size(), 2u);
}

TEST(Rounds, AFailedReductionIsTriedAgainAndTheErrorShown) {
  Scenario run(corrected_config());
  for (const char* name : {"a", "b", "c"}) {
    run.round_of(name, std::string(1, static_cast<char>('1' + name[0] - 'a')) + ".0", 3);
  }
  ASSERT_EQ(run.reduces.size(), 1u);
  run.send(ReduceFailed{1, {Code::storage_full, "write the model: no space left", ""}});
  EXPECT_NE(run.engine.state().last_error.find("no space"), std::string::npos);
  run.tick_after(61);
  ASSERT_EQ(run.reduces.size(), 2u);
  run.finish_reduce();
  EXPECT_EQ(run.engine.state().latest, 1);
}

TEST(Rounds, AResultThatComesTwiceIsPublishedOnce) {
  Scenario run(corrected_config());
  run.round_of("a", "1.0", 3);
  run.tick_after(120);
  run.finish_reduce();
  run.send(ReduceFinished{Scenario::model(1), 0.5});
  EXPECT_EQ(run.count("published"), 1u);
}

TEST(Rounds, TheRunEndsAfterItsRoundsAndSaysSoToEverybody) {
  EngineConfig config = fedavg_config();
  config.rounds_max = 1;
  Scenario run(config, {"a"});
  run.round_of("a", "1.0", 3);
  run.finish_reduce();
  EXPECT_FALSE(run.engine.state().finished.empty());
  EXPECT_EQ(run.plan("a", "k2").verb, PlanAnswer::Verb::stop);
  EXPECT_EQ(run.refused(Scenario::arrival("a", "9.0", 1)).code, Code::run_finished);
  EXPECT_FALSE(run.engine.next_wakeup());
}

TEST(Rounds, OldModelsGoButNotOnesInUse) {
  EngineConfig config = published_config();
  config.models_kept = 2;
  config.policy.t_sync_s = 10;
  config.policy.theta_s = 1;
  config.lease_s = 1000;
  config.contact_timeout_s = 10000;
  Scenario run(config, {"a", "b"});
  const PlanAnswer pinned = run.plan("b", "kb");
  EXPECT_EQ(pinned.base, 0);
  for (int round = 1; round <= 5; ++round) {
    run.round_of("a", std::to_string(round) + ".0", 0);
    run.tick_after(12);
    run.finish_reduce();
    run.leave("a", std::to_string(round) + ".0", "done");
  }
  EXPECT_TRUE(run.models_removed.empty()) << "b still trains from version 0";
  const JobAnswer job = run.start("b", "100.0", 50, "kb");
  run.deliver("b", "100.0", job);
  run.tick_after(12);
  run.finish_reduce();
  EXPECT_EQ(run.models_removed, (std::set<Version>{1, 2, 3, 4}));
}

TEST(Rounds, EvaluationsAreKeptAndOfUnknownVersionsRefused) {
  Scenario run(corrected_config());
  run.send(EvaluationArrived{{0, 0.125, 2.3, 10000}});
  EXPECT_EQ(run.engine.state().evaluations.at(0).accuracy, 0.125);
  EXPECT_EQ(run.refused(EvaluationArrived{{7, 0.5, 1, 10}}).code, Code::not_found);
  const auto status = nlohmann::json::parse(run.ask<std::string>(StatusRequested{}));
  EXPECT_EQ(status["evaluations"]["0"]["accuracy"], 0.125);
}

TEST(Rounds, AFacilitySeesItsOwnDetailsAlone) {
  Scenario run(corrected_config());
  const auto own = nlohmann::json::parse(run.ask<std::string>(StatusRequested{FacilityId("b")}));
  EXPECT_EQ(own["facilities"].size(), 1u);
  EXPECT_TRUE(own["facilities"].contains("b"));
  const auto all = nlohmann::json::parse(run.ask<std::string>(StatusRequested{}));
  EXPECT_EQ(all["facilities"].size(), 3u);
}

// Follows the engine's own wake-ups, as the driver does.
void follow_wakeups(Scenario& run, std::size_t reductions) {
  for (int i = 0; i < 100 && run.reduces.size() < reductions; ++i) {
    ASSERT_TRUE(run.engine.next_wakeup());
    run.now = *run.engine.next_wakeup();
    run.send(Tick{});
  }
}

TEST(Rounds, ASilentFacilityIsNotWaitedForAlsoTheSecondTimeItFallsSilent) {
  EngineConfig config = fedavg_config();
  config.contact_timeout_s = 50;
  config.lease_s = 1000;
  Scenario run(config, {"a", "b"});
  run.pass(10);
  run.deliver("a", "1.0", run.start("a", "1.0", 1));
  follow_wakeups(run, 1);
  EXPECT_NEAR(to_seconds(run.now.time_since_epoch()), 50, 0.1);
  run.finish_reduce();
  run.pass(10);
  run.plan("b", "k1");  // it is back, and falls silent again
  run.deliver("a", "2.0", run.start("a", "2.0", 1));
  EXPECT_EQ(run.reduces.size(), 1u);
  follow_wakeups(run, 2);
  EXPECT_EQ(run.reduces.size(), 2u);
  EXPECT_NEAR(to_seconds(run.now.time_since_epoch()), 110, 0.1);
}

TEST(Rounds, WhoeverIsMissingIsWaitedForInTurn) {
  Scenario run(fedavg_config(), {"a", "b", "c"});
  const JobAnswer a = run.start("a", "1.0", 1);
  const JobAnswer b = run.start("b", "2.0", 1);
  const JobAnswer c = run.start("c", "3.0", 1);
  run.deliver("b", "2.0", b);
  run.deliver("a", "1.0", a);
  EXPECT_TRUE(run.reduces.empty());
  run.deliver("c", "3.0", c);
  EXPECT_EQ(run.reduces.size(), 1u);
}

}  // namespace
}  // namespace fedqueue::test
