// Policies without rounds, jobs of many segments, early submission and hand-over: what trainers and
// agents rely on. Every step is also replayed (scenario.h).
#include <gtest/gtest.h>

#include "tests/unit/fedserver/engine/scenario.h"

namespace fedqueue::test {
namespace {

EngineConfig config_of(PolicyKind kind) {
  EngineConfig config = corrected_config();
  config.policy.policy = kind;
  return config;
}

UpdateAnswer ask_next(Scenario& run, const std::string& name, const UpdateId& id) {
  return run.ask<UpdateAnswer>(UpdateAsked{FacilityId(name), id});
}

// Delivers the segment of `next` with a time per step, `seconds` after now.
UpdateAnswer deliver_segment(Scenario& run, const std::string& name, const std::string& attempt,
                             JobAnswer job, const Next& next, double seconds) {
  run.pass(seconds);
  job.next = next;
  UpdateStored update = Scenario::update(name, attempt, job);
  update.metadata.seconds_per_step = 0.1;
  update.metadata.train_seconds = 0.1 * static_cast<double>(next.segment.local_steps);
  return run.ask<UpdateAnswer>(update);
}

AttemptArrived arrival_with_limit(const std::string& name, const std::string& attempt,
                                  double limit_s, const std::string& key = "") {
  AttemptArrived event = Scenario::arrival(name, attempt, 5, key);
  event.registration.queue.time_limit_s = limit_s;
  event.registration.queue.remaining_s = limit_s;
  return event;
}

TEST(OnArrival, EveryUpdateMakesAVersionAndTheNextBaseHoldsIt) {
  Scenario run(config_of(PolicyKind::resident), {"a", "b"});
  const JobAnswer a = run.start("a", "1.0", 2);
  const JobAnswer b = run.start("b", "2.0", 2);
  ASSERT_EQ(a.next.segment.local_steps, 10);
  const UpdateAnswer answer = deliver_segment(run, "a", "1.0", a, a.next, 5);
  EXPECT_EQ(answer.disposition, Disposition::counted);
  EXPECT_EQ(answer.next.kind, Next::Kind::wait);
  EXPECT_LE(answer.next.wait_s, 1) << "the model is there in a moment";
  ASSERT_EQ(run.reduces.size(), 1u);
  EXPECT_EQ(run.reduces[0].plan.step.optimizer, ServerOptimizer::heloco);
  EXPECT_NEAR(run.reduces[0].plan.updates[0].weight, 1, 1e-12) << "half of the data, a step of 2";
  EXPECT_EQ(ask_next(run, "a", answer.id).next.kind, Next::Kind::wait) << "not published yet";
  run.finish_reduce();
  const UpdateAnswer next = ask_next(run, "a", answer.id);
  ASSERT_EQ(next.next.kind, Next::Kind::segment);
  EXPECT_EQ(next.next.segment.index, 2);
  EXPECT_EQ(next.next.segment.base, 1);
  EXPECT_EQ(next.disposition, answer.disposition);
  // b trained from version 0 all the time.
  deliver_segment(run, "b", "2.0", b, b.next, 1);
  EXPECT_EQ(run.reduces.back().plan.updates[0].staleness, 1);
}

// One facility's training runs away after 16 updates as usual. The median is the journal's: the
// scenario replays it.
TEST(OnArrival, AnUpdateThatIsMuchLongerThanUsualMovesTheModelNoFurther) {
  Scenario run(config_of(PolicyKind::resident), {"a", "b"});
  const JobAnswer job = run.start("a", "1.0", 2);
  Next next = job.next;
  const auto deliver = [&](double norm_per_step) {
    run.pass(5);
    JobAnswer segment = job;
    segment.next = next;
    UpdateStored update = Scenario::update("a", "1.0", segment);
    update.metadata.seconds_per_step = 0.1;
    update.norm = norm_per_step * static_cast<double>(update.metadata.steps_run);
    const UpdateAnswer answer = run.ask<UpdateAnswer>(update);
    const double weight = run.reduces.back().plan.updates[0].weight;
    run.finish_reduce();
    next = ask_next(run, "a", answer.id).next;
    return weight;
  };
  for (int i = 0; i < 15; ++i) EXPECT_NEAR(deliver(0.01), 1, 1e-12);
  EXPECT_NEAR(deliver(1), 0.04, 1e-12) << "the sixteenth: usual is 0.01, four times that are 0.04";
  EXPECT_NEAR(deliver(0.01), 1, 1e-12);
}

TEST(OnArrival, WhatComesNextIsTheSameBytesHoweverOftenAsked) {
  Scenario run(config_of(PolicyKind::resident), {"a", "b"});
  const JobAnswer a = run.start("a", "1.0", 2);
  const JobAnswer b = run.start("b", "2.0", 2);
  const UpdateStored update = Scenario::update("a", "1.0", a);
  const UpdateAnswer answer = run.ask<UpdateAnswer>(update);
  run.finish_reduce();
  const std::string first = encode(ask_next(run, "a", answer.id));
  deliver_segment(run, "b", "2.0", b, b.next, 1);
  run.finish_reduce();
  EXPECT_EQ(encode(ask_next(run, "a", answer.id)), first) << "although a newer version is out";
  EXPECT_EQ(encode(run.ask<UpdateAnswer>(update)), first) << "sent again";
  EXPECT_EQ(run.count("next-decided"), 1u);
  // Registering again, as older trainers do, finds the same segment.
  EXPECT_EQ(run.start("a", "1.0", 2).next.segment.base, 1);
}

TEST(OnArrival, AModelThatCannotBeRebuiltIsRefused) {
  EngineConfig config = config_of(PolicyKind::fedasync);
  config.models_kept = 1;
  Scenario run(config, {"a", "b"});
  const JobAnswer first = run.start("a", "1.0", 2);
  deliver_segment(run, "a", "1.0", first, first.next, 5);
  run.finish_reduce();
  const JobAnswer killed = run.start("b", "2.0", 2);  // from version 1
  run.leave("b", "2.0", "TIMEOUT");
  const JobAnswer other = run.start("a", "3.0", 2);
  deliver_segment(run, "a", "3.0", other, other.next, 5);
  run.finish_reduce();  // version 1 goes
  EXPECT_EQ(run.refused(Scenario::update("b", "2.0", killed)).code, Code::wrong_base);
}

TEST(OnArrival, UpdatesThatArriveDuringAReductionShareTheNextOne) {
  Scenario run(config_of(PolicyKind::resident), {"a", "b", "c"});
  const JobAnswer a = run.start("a", "1.0", 2);
  const JobAnswer b = run.start("b", "2.0", 2);
  const JobAnswer c = run.start("c", "3.0", 2);
  run.deliver("a", "1.0", a);
  run.deliver("b", "2.0", b);
  run.deliver("c", "3.0", c);
  ASSERT_EQ(run.reduces.size(), 1u);
  run.finish_reduce();
  ASSERT_EQ(run.reduces.size(), 2u);
  EXPECT_EQ(run.reduces[1].plan.updates.size(), 2u);
  const auto& cells = run.engine.state().rounds.back().cells;
  EXPECT_EQ(cells.at(FacilityId("b")).staleness, 1);
  EXPECT_EQ(cells.at(FacilityId("b")).outcome, "admitted") << "others published meanwhile";
}

TEST(OnArrival, AResidentJobTrainsOnUntilItsTimeIsOver) {
  Scenario run(config_of(PolicyKind::resident), {"a"});
  const JobAnswer job = run.ask<JobAnswer>(arrival_with_limit("a", "1.0", 60));
  Next next = job.next;
  int segments = 0;
  while (next.kind == Next::Kind::segment && segments < 100) {
    const UpdateAnswer answer = deliver_segment(run, "a", "1.0", job, next, 5);
    ++segments;
    run.finish_reduce();
    next = ask_next(run, "a", answer.id).next;
  }
  EXPECT_EQ(next.kind, Next::Kind::stop);
  EXPECT_EQ(segments, 12);
}

TEST(OnArrival, SegmentsGrowWithTheMeasuredCostOfAnExchange) {
  Scenario run(config_of(PolicyKind::resident), {"a"});
  const JobAnswer job = run.start("a", "1.0", 2);
  UpdateAnswer answer = deliver_segment(run, "a", "1.0", job, job.next, 4);
  run.finish_reduce();
  Next next = ask_next(run, "a", answer.id).next;
  EXPECT_EQ(next.segment.local_steps, 10) << "nothing is known of an exchange yet";
  // 10 steps of 0.1 s, and 2 s more until the update was in: 18 s of training for 2 s.
  answer = deliver_segment(run, "a", "1.0", job, next, 3);
  run.finish_reduce();
  next = ask_next(run, "a", answer.id).next;
  EXPECT_EQ(next.segment.local_steps, 180);
}

TEST(OnArrival, ParticipationIsJournalledForThoseWhoCountedAlone) {
  Scenario run(config_of(PolicyKind::resident), {"a", "b", "c"});
  const JobAnswer a = run.start("a", "1.0", 2);
  run.deliver("a", "1.0", a);
  EXPECT_EQ(run.reduces[0].plan.participation.size(), 1u);
  EXPECT_TRUE(run.reduces[0].plan.participation.contains("a"));
}

TEST(OnArrival, AServerStateIsKeptAndTheOlderOneGoes) {
  Scenario run(config_of(PolicyKind::resident), {"a"});
  const JobAnswer job = run.start("a", "1.0", 2);
  Next next = job.next;
  for (Version version = 1; version <= 2; ++version) {
    const UpdateAnswer answer = deliver_segment(run, "a", "1.0", job, next, 5);
    const std::string file = "state-" + std::to_string(version);
    run.send(ReduceFinished{Scenario::model(version), 0.1,
                            ServerState{version, file, "sha-" + file, 10}});
    next = ask_next(run, "a", answer.id).next;
  }
  EXPECT_EQ(run.engine.state().server_state->file, "state-2");
  EXPECT_EQ(run.states_removed, std::set<std::string>{"state-1"});
  deliver_segment(run, "a", "1.0", job, next, 5);
  ASSERT_TRUE(run.reduces.back().plan.state);
  EXPECT_EQ(run.reduces.back().plan.state->file, "state-2");
}

TEST(FedAsyncRun, MixesEveryArrivalAndHoldsItsFacilityForThatAlone) {
  Scenario run(config_of(PolicyKind::fedasync), {"a", "b"});
  const UpdateAnswer answer = run.round_of("a", "1.0", 2);
  EXPECT_EQ(answer.next.kind, Next::Kind::wait);
  ASSERT_EQ(run.reduces.size(), 1u);
  EXPECT_TRUE(run.reduces[0].plan.rebuild_models);
  EXPECT_NEAR(run.reduces[0].plan.keep, 0.4, 1e-12);
  EXPECT_EQ(run.reduces[0].bases.count(0), 1u);
  run.finish_reduce();
  EXPECT_EQ(ask_next(run, "a", answer.id).next.kind, Next::Kind::stop) << "one segment per job";
  run.leave("a", "1.0", "COMPLETED");
  EXPECT_EQ(run.plan("a", "k2").verb, PlanAnswer::Verb::submit);
}

TEST(FedBuffRun, AnswersAtOnceAndBuffersSeveralUpdatesOfAFacility) {
  EngineConfig config = config_of(PolicyKind::fedbuff);
  config.policy.segments_per_job = 0;
  config.policy.buffer_size = 3;
  Scenario run(config, {"a", "b"});
  const JobAnswer job = run.start("a", "1.0", 2);
  Next next = job.next;
  for (int segment = 1; segment <= 3; ++segment) {
    ASSERT_EQ(next.kind, Next::Kind::segment);
    EXPECT_EQ(next.segment.index, segment);
    EXPECT_TRUE(run.reduces.empty());
    next = deliver_segment(run, "a", "1.0", job, next, 5).next;
  }
  ASSERT_EQ(run.reduces.size(), 1u);
  EXPECT_EQ(run.reduces[0].plan.updates.size(), 3u);
  EXPECT_EQ(next.kind, Next::Kind::segment);
}

TEST(FedBuffRun, AFacilityMayPlanItsNextJobWhileItsUpdateIsBuffered) {
  Scenario run(config_of(PolicyKind::fedbuff), {"a", "b"});
  EXPECT_EQ(run.round_of("a", "1.0", 2).next.kind, Next::Kind::stop);
  run.leave("a", "1.0", "COMPLETED");
  EXPECT_EQ(run.plan("a", "k2").verb, PlanAnswer::Verb::submit);
}

TEST(Segments, OfARoundPolicyAreToldThroughTheUpdateWhenTheRoundIsOut) {
  EngineConfig config = fedavg_config();
  config.policy.segments_per_job = 2;
  Scenario run(config, {"a", "b"});
  const JobAnswer a = run.start("a", "1.0", 2);
  const JobAnswer b = run.start("b", "2.0", 2);
  const UpdateAnswer answer = run.deliver("a", "1.0", a);
  EXPECT_EQ(answer.next.kind, Next::Kind::wait);
  EXPECT_EQ(ask_next(run, "a", answer.id).next.kind, Next::Kind::wait);
  run.deliver("b", "2.0", b);
  run.finish_reduce();
  const UpdateAnswer next = ask_next(run, "a", answer.id);
  ASSERT_EQ(next.next.kind, Next::Kind::segment);
  EXPECT_EQ(next.next.segment.base, 1);
}

TEST(Segments, AFinishedRunIsToldThroughTheUpdateToo) {
  EngineConfig config = config_of(PolicyKind::resident);
  config.rounds_max = 1;
  Scenario run(config, {"a"});
  const JobAnswer job = run.start("a", "1.0", 2);
  const UpdateAnswer answer = run.deliver("a", "1.0", job);
  run.finish_reduce();
  const UpdateAnswer next = ask_next(run, "a", answer.id);
  EXPECT_EQ(next.next.kind, Next::Kind::stop);
  EXPECT_NE(next.next.reason.find("finished"), std::string::npos);
}

TEST(EarlySubmission, TheNextJobIsPlannedWhileItsPredecessorTrains) {
  EngineConfig config = config_of(PolicyKind::resident);
  config.policy.early_submission = 0.5;
  Scenario run(config, {"a"});
  ASSERT_EQ(run.plan("a", "k1").verb, PlanAnswer::Verb::submit);
  run.ask<JobAnswer>(arrival_with_limit("a", "1.0", 100, "k1"));
  run.pass(40);
  EXPECT_EQ(run.plan("a", "k2").verb, PlanAnswer::Verb::wait);
  run.pass(10);
  EXPECT_EQ(run.plan("a", "k2").verb, PlanAnswer::Verb::submit);
  PlanRequest third;
  third.key = "k3";
  third.pending_jobs = 1;
  EXPECT_EQ(run.ask<PlanAnswer>(PlanRequested{FacilityId("a"), third}).verb, PlanAnswer::Verb::wait)
      << "one in the queue is enough";
}

TEST(EarlySubmission, IsOffForBaselinesUnlessAskedFor) {
  Scenario off(config_of(PolicyKind::fedbuff), {"a"});
  off.plan("a", "k1");
  off.start("a", "1.0", 2, "k1");
  EXPECT_EQ(off.plan("a", "k2").verb, PlanAnswer::Verb::wait);
  EngineConfig config = config_of(PolicyKind::fedbuff);
  config.policy.early_submission = 0;
  Scenario on(config, {"a"});
  on.plan("a", "k1");
  on.start("a", "1.0", 2, "k1");
  EXPECT_EQ(on.plan("a", "k2").verb, PlanAnswer::Verb::submit);
}

TEST(EarlySubmission, AWaitBesideThePredecessorIsNotTakenOffTheWork) {
  EngineConfig config = corrected_config();
  config.policy.early_submission = 0;
  config.policy.wait_predictor = WaitPredictorKind::ewma;  // whole seconds stay whole
  Scenario run(config, {"a"});
  run.deliver("a", "1.0", run.start("a", "1.0", 40));  // q^ is 40 s now, and a step 0.5 s
  run.finish_reduce();
  run.leave("a", "1.0", "COMPLETED");
  const PlanAnswer first = run.plan("a", "k2");
  EXPECT_EQ(first.local_steps, 100);  // (100 − 40 − 10) / 0.5
  run.start("a", "2.0", 40, "k2");
  const PlanAnswer successor = run.plan("a", "k3");
  EXPECT_EQ(successor.verb, PlanAnswer::Verb::submit);
  EXPECT_EQ(successor.local_steps, 180);  // (100 − 10) / 0.5
  EXPECT_DOUBLE_EQ(successor.deadline_wait_s, first.deadline_wait_s);
}

TEST(HandOver, ThePredecessorDeliversAndStopsWhileTheSuccessorTrains) {
  Scenario run(config_of(PolicyKind::resident), {"a"});
  run.plan("a", "k1");
  const JobAnswer first = run.start("a", "1.0", 2, "k1");
  run.plan("a", "k2");
  const JobAnswer second = run.start("a", "2.0", 2, "k2");
  EXPECT_EQ(second.next.kind, Next::Kind::segment) << "nothing idles";
  EXPECT_EQ(run.ask<HeartbeatAnswer>(
                   HeartbeatArrived{FacilityId("a"), AttemptId("1.0"), {first.token, 10}})
                .state,
            HeartbeatAnswer::State::finish);
  const UpdateAnswer answer = run.deliver("a", "1.0", first);
  EXPECT_EQ(answer.disposition, Disposition::counted);
  EXPECT_EQ(answer.next.kind, Next::Kind::stop);
  run.leave("a", "1.0", "COMPLETED");
  EXPECT_EQ(run.engine.state().facilities.at(FacilityId("a")).jobs_failed, 0);
  EXPECT_EQ(run.engine.state().facilities.at(FacilityId("a")).assigned, AttemptId("2.0"));
}

TEST(HandOver, TheGraceOfThePredecessorIsBounded) {
  EngineConfig config = config_of(PolicyKind::resident);
  config.policy.handover_grace_s = 20;
  config.lease_s = 1000;
  Scenario run(config, {"a"});
  const JobAnswer first = run.start("a", "1.0", 2);
  run.start("a", "2.0", 2);
  run.tick_after(19);
  EXPECT_EQ(run.count("attempt-fenced"), 0u);
  ASSERT_TRUE(run.engine.next_wakeup());
  EXPECT_LE(*run.engine.next_wakeup() - run.now, from_seconds(1));
  run.tick_after(1);
  EXPECT_EQ(run.count("attempt-fenced"), 1u);
  EXPECT_EQ(run.refused(Scenario::update("a", "1.0", first)).code, Code::conflict);
}

TEST(HandOver, WhoHasNothingToDeliverIsNotFenced) {
  EngineConfig config = config_of(PolicyKind::resident);
  config.policy.handover_grace_s = 20;
  config.lease_s = 1000;
  Scenario run(config, {"a"});
  const JobAnswer first = run.start("a", "1.0", 2);
  run.start("a", "2.0", 2);
  run.deliver("a", "1.0", first);
  run.tick_after(60);
  EXPECT_EQ(run.count("attempt-fenced"), 0u);
}

}  // namespace
}  // namespace fedqueue::test
