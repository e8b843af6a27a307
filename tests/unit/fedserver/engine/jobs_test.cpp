// Plans, slots, fencing, leases, and which updates may be delivered.
#include "scenario.h"

namespace fedqueue::test {
namespace {

UploadOffered offer_of(const UpdateStored& update) {
  return {update.facility, update.id, update.metadata, update.token, update.bytes};
}

TEST(Plans, TheSameQuestionGetsTheSamePlan) {
  Scenario run(corrected_config());
  const PlanAnswer first = run.plan("a", "k1");
  EXPECT_EQ(encode(run.plan("a", "k1")), encode(first));
  EXPECT_EQ(run.count("plan-given"), 1u);
}

TEST(Plans, NoSecondJobWhereOneIsMeant) {
  Scenario run(corrected_config());
  run.plan("a", "k1");
  run.start("a", "1.0", 2, "k1");
  EXPECT_EQ(run.plan("a", "k2").verb, PlanAnswer::Verb::wait) << "a job is training";
  PlanRequest busy;
  busy.key = "k3";
  busy.pending_jobs = 1;
  EXPECT_EQ(run.ask<PlanAnswer>(PlanRequested{FacilityId("b"), busy}).verb, PlanAnswer::Verb::wait);
  EXPECT_EQ(run.plan("a", "k1").verb, PlanAnswer::Verb::wait) << "that plan is used";
}

TEST(Plans, AFacilityThatIsInWaitsForTheNextRound) {
  Scenario run(corrected_config());
  run.round_of("a", "1.0", 3);
  run.leave("a", "1.0", "done");
  const PlanAnswer wait = run.plan("a", "k2");
  EXPECT_EQ(wait.verb, PlanAnswer::Verb::wait);
  EXPECT_GT(wait.retry_after_s, 0);
}

TEST(Plans, ALongQueueIsJoinedBeforeTheRoundEnds) {
  Scenario run(corrected_config());
  run.round_of("a", "1.0", 60);  // its queue takes a minute
  run.leave("a", "1.0", "done");
  run.pass(60);  // the timer is 115 s after the opening
  EXPECT_EQ(run.plan("a", "k2").verb, PlanAnswer::Verb::submit);
}

TEST(Plans, AStrangerIsNotEnrolled) {
  Scenario run(corrected_config());
  PlanRequest request;
  request.key = "k";
  EXPECT_EQ(run.refused(PlanRequested{FacilityId("mallory"), request}).code, Code::identity);
}

TEST(Plans, PublishedFedQueuePinsBaseAndSteps) {
  Scenario run(published_config());
  const PlanAnswer plan = run.plan("a", "k1");
  EXPECT_EQ(plan.base, 0);
  run.round_of("b", "2.0", 1);
  run.tick_after(120);
  run.finish_reduce();
  const JobAnswer job = run.start("a", "1.0", 120, "k1");
  EXPECT_EQ(job.next.segment.base, 0) << "no late binding";
  EXPECT_EQ(job.next.segment.local_steps, plan.local_steps);
  const UpdateAnswer answer = run.deliver("a", "1.0", job);
  EXPECT_EQ(answer.next.kind, Next::Kind::wait) << "answered when aggregated";
}

TEST(Jobs, TheSameLaunchMayRegisterAgain) {
  Scenario run(corrected_config());
  const JobAnswer first = run.start("a", "1.0", 2);
  const JobAnswer again = run.start("a", "1.0", 2);
  EXPECT_EQ(first.token, again.token);
  EXPECT_EQ(again.next.segment.base, first.next.segment.base);
  EXPECT_EQ(run.count("segment-assigned"), 1u);
}

TEST(Jobs, ASecondLaunchOfTheSameAttemptTakesOver) {
  Scenario run(corrected_config());
  const JobAnswer first = run.start("a", "1.0", 2, "", "n1");
  const JobAnswer second = run.start("a", "1.0", 2, "", "n2");
  EXPECT_NE(first.token, second.token);
  const HeartbeatAnswer old = run.ask<HeartbeatAnswer>(
      HeartbeatArrived{FacilityId("a"), AttemptId("1.0"), {first.token, 3}});
  EXPECT_EQ(old.state, HeartbeatAnswer::State::fenced);
  EXPECT_EQ(run.refused(Scenario::update("a", "1.0", first)).code, Code::conflict);
  EXPECT_EQ(run.deliver("a", "1.0", second).disposition, Disposition::counted);
}

TEST(Jobs, ARequeuedJobFencesItsFirstStart) {
  Scenario run(corrected_config());
  const JobAnswer first = run.start("a", "1.0", 2);
  const JobAnswer second = run.start("a", "1.1", 9);
  EXPECT_EQ(run.refused(Scenario::update("a", "1.0", first)).code, Code::conflict);
  EXPECT_EQ(run.refused(Scenario::arrival("a", "1.0", 2, "", "n3")).code, Code::conflict);
  EXPECT_EQ(run.deliver("a", "1.1", second).disposition, Disposition::counted);
}

TEST(Jobs, AtHandOverThePredecessorFinishesAndMayStillDeliver) {
  Scenario run(corrected_config());
  const JobAnswer first = run.start("a", "1.0", 2);
  run.start("a", "2.0", 2);
  EXPECT_EQ(run.engine.state().facilities.at(FacilityId("a")).assigned, AttemptId("2.0"));
  const HeartbeatAnswer told = run.ask<HeartbeatAnswer>(
      HeartbeatArrived{FacilityId("a"), AttemptId("1.0"), {first.token, 3}});
  EXPECT_EQ(told.state, HeartbeatAnswer::State::finish);
  const UpdateAnswer answer = run.deliver("a", "1.0", first);
  EXPECT_EQ(answer.disposition, Disposition::counted);
  EXPECT_EQ(answer.next.kind, Next::Kind::stop);
}

TEST(Jobs, SilenceLosesTheSlotAndHeartbeatsKeepIt) {
  Scenario run(corrected_config());
  const JobAnswer job = run.start("a", "1.0", 2);
  run.tick_after(25);
  run.send(HeartbeatArrived{FacilityId("a"), AttemptId("1.0"), {job.token, 5}});
  run.tick_after(25);
  EXPECT_EQ(run.count("attempt-ended"), 0u);
  run.tick_after(10);
  EXPECT_EQ(run.count("attempt-ended"), 1u);
  EXPECT_TRUE(run.engine.state().facilities.at(FacilityId("a")).failed);
  // Its work is not lost: the snapshot may still come.
  EXPECT_EQ(run.deliver("a", "1.0", job).disposition, Disposition::counted);
}

TEST(Jobs, LeasesStartAnewAfterARestart) {
  Scenario run(corrected_config());
  run.start("a", "1.0", 2);
  run.pass(29);
  run.engine.resumed(run.now);
  run.tick_after(10);
  EXPECT_EQ(run.count("attempt-ended"), 0u);
  run.tick_after(25);
  EXPECT_EQ(run.count("attempt-ended"), 1u);
}

TEST(Jobs, AJobThatNeverRegisteredFreesTheSlot) {
  Scenario run(corrected_config());
  run.plan("a", "k1");
  run.leave("a", "1.0", "CANCELLED");
  EXPECT_EQ(run.engine.state().facilities.at(FacilityId("a")).jobs_failed, 1);
  EXPECT_EQ(run.plan("a", "k2").verb, PlanAnswer::Verb::submit);
  run.leave("a", "1.0", "CANCELLED");  // said twice, counted once
  EXPECT_EQ(run.engine.state().facilities.at(FacilityId("a")).jobs_failed, 1);
}

TEST(Jobs, SeveralSegmentsShareOneAllocation) {
  EngineConfig config = corrected_config();
  config.policy.segments_per_job = 2;
  Scenario run(config, {"a"});
  const JobAnswer first = run.start("a", "1.0", 2);
  const UpdateAnswer answer = run.deliver("a", "1.0", first);
  EXPECT_EQ(answer.next.kind, Next::Kind::wait);
  EXPECT_EQ(run.start("a", "1.0", 2).next.kind, Next::Kind::wait) << "the round is being published";
  run.finish_reduce();
  const JobAnswer second = run.start("a", "1.0", 2);
  ASSERT_EQ(second.next.kind, Next::Kind::segment);
  EXPECT_EQ(second.next.segment.index, 2);
  EXPECT_EQ(second.next.segment.base, 1);
  EXPECT_EQ(run.deliver("a", "1.0", second).next.kind, Next::Kind::stop);
}

TEST(Updates, CountOnceHoweverOftenTheyAreSent) {
  Scenario run(corrected_config());
  const JobAnswer job = run.start("a", "1.0", 2);
  const UpdateStored update = Scenario::update("a", "1.0", job);
  const std::string first = encode(run.ask<UpdateAnswer>(update));
  EXPECT_EQ(encode(run.ask<UpdateAnswer>(update)), first);
  EXPECT_EQ(encode(run.ask<UpdateAnswer>(offer_of(update))), first);
  EXPECT_EQ(encode(run.ask<UpdateAnswer>(UpdateAsked{update.facility, update.id})), first);
  EXPECT_EQ(run.count("update-decided"), 1u);
}

TEST(Updates, AreRefusedWithTheirReasonBeforeAnyByteIsSent) {
  Scenario run(corrected_config());
  const JobAnswer job = run.start("a", "1.0", 2);
  const UpdateStored good = Scenario::update("a", "1.0", job);

  UploadOffered wrong_base = offer_of(good);
  wrong_base.metadata.base = 5;
  EXPECT_EQ(run.refused(wrong_base).code, Code::wrong_base);

  UploadOffered too_many_steps = offer_of(good);
  too_many_steps.metadata.steps_run += 1;
  EXPECT_EQ(run.refused(too_many_steps).code, Code::usage);

  UploadOffered too_large = offer_of(good);
  too_large.bytes = 100u << 20;
  EXPECT_EQ(run.refused(too_large).code, Code::too_large);

  UploadOffered of_another = offer_of(good);
  of_another.facility = FacilityId("b");
  EXPECT_EQ(run.refused(of_another).code, Code::identity);

  UploadOffered unknown_job = offer_of(good);
  unknown_job.id = UpdateId("a.99.0.1");
  EXPECT_EQ(run.refused(unknown_job).code, Code::not_found);

  UploadOffered wrong_segment = offer_of(good);
  wrong_segment.id = UpdateId("a.1.0.2");
  EXPECT_EQ(run.refused(wrong_segment).code, Code::conflict);

  UploadOffered wrong_token = offer_of(good);
  wrong_token.token = "guessed";
  EXPECT_EQ(run.refused(wrong_token).code, Code::conflict);

  EXPECT_TRUE(std::holds_alternative<Accepted>(run.send(offer_of(good))));
  EXPECT_EQ(run.count("update-decided"), 0u);
}

TEST(Updates, ThatTheScreeningRefusedAreAnsweredSoForEver) {
  Scenario run(corrected_config());
  const JobAnswer job = run.start("a", "1.0", 2);
  const UpdateStored update = Scenario::update("a", "1.0", job);
  const UpdateAnswer answer = run.ask<UpdateAnswer>(
      UpdateRefused{update.facility,
                    update.id,
                    update.metadata,
                    update.token,
                    {Code::not_finite, "tensor 'fc1.weight' has a NaN at element 3", ""}});
  EXPECT_EQ(answer.disposition, Disposition::rejected);
  EXPECT_EQ(answer.code, Code::not_finite);
  EXPECT_EQ(encode(run.ask<UpdateAnswer>(UpdateAsked{update.facility, update.id})), encode(answer));
  EXPECT_TRUE(run.removed.contains(update.id));
  // The others go on without it.
  run.round_of("b", "2.0", 1);
  run.round_of("c", "3.0", 1);
  run.tick_after(120);
  ASSERT_EQ(run.reduces.size(), 1u);
  EXPECT_EQ(run.reduces[0].plan.updates.size(), 2u);
}

TEST(Updates, AreRejectedBeyondTheStalenessCap) {
  EngineConfig config = corrected_config();
  config.policy.staleness_max = 1;
  config.lease_s = 10000;
  Scenario run(config, {"a", "b"});
  const JobAnswer slow = run.start("b", "50.0", 1);
  for (int round = 1; round <= 3; ++round) {
    run.round_of("a", std::to_string(round) + ".0", 1);
    run.tick_after(120);
    run.finish_reduce();
    run.leave("a", std::to_string(round) + ".0", "done");
  }
  const UpdateAnswer answer = run.deliver("b", "50.0", slow);
  EXPECT_EQ(answer.disposition, Disposition::rejected);
  EXPECT_EQ(answer.staleness, 3);
  EXPECT_FALSE(answer.reason.empty());
}

TEST(Updates, WithFewerStepsThanAssignedCountWithWhatWasRun) {
  Scenario run(corrected_config());
  const JobAnswer job = run.start("a", "1.0", 2);
  UpdateStored update = Scenario::update("a", "1.0", job);
  update.metadata.steps_run = 4;
  EXPECT_EQ(run.ask<UpdateAnswer>(update).disposition, Disposition::counted);
  EXPECT_EQ(run.engine.state().decisions.at(update.id).metadata.steps_run, 4);
}

}  // namespace
}  // namespace fedqueue::test
