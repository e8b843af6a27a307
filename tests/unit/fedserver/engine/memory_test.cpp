// What a run forgets, and what it must not. Scenario compares a replay with it at every step.
#include "tests/unit/fedserver/engine/scenario.h"

namespace fedqueue {
namespace {

using test::Scenario;

EngineConfig resident_config() {
  EngineConfig config = test::corrected_config();
  config.policy.policy = PolicyKind::resident;
  return config;
}

// Delivers one segment of attempt 1.0 and publishes it.
UpdateId publish_segment(Scenario& run) {
  run.pass(1);
  const JobAnswer job = run.start("a", "1.0", 0);
  const UpdateId id = run.deliver("a", "1.0", job).id;
  run.finish_reduce();
  return id;
}

TEST(Memory, OnlyTheNewestAnswersOfAJobAreKept) {
  Scenario run(resident_config(), {"a", "b"});
  std::vector<UpdateId> sent;
  for (int segment = 0; segment < 10; ++segment) sent.push_back(publish_segment(run));
  EXPECT_EQ(run.engine.state().decisions.size(), 2u);
  EXPECT_LE(run.engine.state().follow_ups.size(), 2u);

  const UpdateAsked newest{FacilityId("a"), sent.back()};
  EXPECT_EQ(encode(run.ask<UpdateAnswer>(newest)), encode(run.ask<UpdateAnswer>(newest)));
  run.ask<UpdateAnswer>(UpdateAsked{FacilityId("a"), sent[8]});
  // Not "unknown", for then a client would send it again.
  EXPECT_EQ(run.refused(UpdateAsked{FacilityId("a"), sent[0]}).code, Code::conflict);
  EXPECT_EQ(run.refused(UpdateAsked{FacilityId("b"), sent[0]}).code, Code::not_found);
}

TEST(Memory, AJobIsForgottenADayAfterItsEnd) {
  Scenario run(test::fedavg_config(), {"a"});
  const auto job = [&](int number) {
    const std::string attempt = std::to_string(number) + ".0";
    run.round_of("a", attempt, 0);
    run.finish_reduce();
    run.leave("a", attempt, "COMPLETED");
  };
  for (int number = 1; number <= 6; ++number) job(number);
  const auto& attempts = run.engine.state().facilities.at(FacilityId("a")).attempts;
  EXPECT_EQ(attempts.size(), 6u) << "an agent may still report them";
  run.pass(25 * 3600.0);
  job(7);
  EXPECT_EQ(attempts.size(), 4u);
  EXPECT_TRUE(attempts.contains(AttemptId("6.0")));
  EXPECT_FALSE(attempts.contains(AttemptId("1.0")));
  EXPECT_EQ(run.engine.state().decisions.size(), 4u);
}

TEST(Memory, AJobWhoseUpdateMayStillComeIsNotForgotten) {
  Scenario run(test::fedavg_config(), {"a"});
  const JobAnswer lost = run.start("a", "1.0", 0);
  run.leave("a", "1.0", "NODE_FAIL");
  for (int number = 2; number <= 8; ++number) {
    run.pass(25 * 3600.0);
    const std::string attempt = std::to_string(number) + ".0";
    run.start("a", attempt, 0);
    run.leave("a", attempt, "NODE_FAIL");
  }
  EXPECT_EQ(run.deliver("a", "1.0", lost).disposition, Disposition::counted);
}

}  // namespace
}  // namespace fedqueue
