// What a trainer job relies on when it talks to the server.
#include "fedclient/session/session.h"

#include <gtest/gtest.h>

#include "core/base/prng.h"

namespace fedqueue {
namespace {

using Step = Session::Step;

Instant at(double seconds) { return Instant(from_seconds(seconds)); }

SessionSettings settings() {
  SessionSettings result;
  result.facility = FacilityId("site-a");
  result.registration.attempt = AttemptId("10001.0");
  result.registration.nonce = "launch-1";
  return result;
}

Next segment(int index, Version base) {
  Next next;
  next.kind = Next::Kind::segment;
  next.segment = {index, base, 40, 0.05};
  return next;
}

Next wait_for(double seconds) {
  Next next;
  next.kind = Next::Kind::wait;
  next.wait_s = seconds;
  return next;
}

JobAnswer job(Next next) {
  JobAnswer answer;
  answer.token = "token-1";
  answer.heartbeat_s = 10;
  answer.lease_s = 60;
  answer.next = std::move(next);
  return answer;
}

UpdateMetadata steps(std::int64_t count) {
  UpdateMetadata metadata;
  metadata.steps_run = count;
  return metadata;
}

UpdateAnswer answer(Disposition disposition, Next next) {
  UpdateAnswer result;
  result.disposition = disposition;
  result.next = std::move(next);
  return result;
}

Next stop() { return {}; }

Session training(SessionSettings with = settings()) {
  Session session(std::move(with), at(0));
  session.enrolled(job(segment(1, 4)), at(1));
  session.fetched(at(2));
  return session;
}

TEST(Session, GoesFromRegistrationThroughSegmentsToTheEnd) {
  Session session(settings(), at(0));
  ASSERT_EQ(session.step(), Step::enrol);
  session.enrolled(job(segment(1, 4)), at(1));
  ASSERT_EQ(session.step(), Step::fetch);
  EXPECT_EQ(session.segment().base, 4);
  session.fetched(at(2));
  ASSERT_EQ(session.step(), Step::train);
  session.trained(steps(40), at(3));
  ASSERT_EQ(session.step(), Step::upload);
  EXPECT_EQ(session.update_id().str(), "site-a.10001.0.1");
  EXPECT_EQ(session.metadata().base, 4);
  session.uploaded(answer(Disposition::counted, segment(2, 5)), at(4));
  ASSERT_EQ(session.step(), Step::fetch);
  EXPECT_EQ(session.update_id().str(), "site-a.10001.0.2");
  session.fetched(at(5));
  session.trained(steps(40), at(6));
  session.uploaded(answer(Disposition::buffered, stop()), at(7));
  ASSERT_EQ(session.step(), Step::report);
  EXPECT_EQ(session.end().state, "done");
  EXPECT_EQ(session.end().token, "token-1");
  session.reported();
  EXPECT_EQ(session.step(), Step::over);
  EXPECT_EQ(session.exit_code(), 0);
  EXPECT_EQ(session.updates_accepted(), 2);
}

TEST(Session, WaitsAndRegistersAgainWithTheSameNonce) {
  Session session(settings(), at(0));
  session.enrolled(job(wait_for(30)), at(1));
  ASSERT_EQ(session.step(), Step::wait);
  EXPECT_EQ(session.wake_at(), at(31));
  session.waited(at(31));
  ASSERT_EQ(session.step(), Step::enrol);
  EXPECT_EQ(session.settings().registration.nonce, "launch-1");
}

TEST(Session, DoesNotFetchAModelThatItStillHolds) {
  Session session(settings(), at(0));
  session.enrolled(job(segment(1, 4)), at(1));
  session.failed({Code::server_error, "broken", ""}, at(2), 0.5);
  session.waited(at(3));
  ASSERT_EQ(session.step(), Step::fetch);
  session.fetched(at(4));
  session.trained(steps(40), at(5));
  // Trained on it: the same base must be loaded again.
  session.uploaded(answer(Disposition::counted, segment(2, 4)), at(6));
  EXPECT_EQ(session.step(), Step::fetch);
}

TEST(Session, TriesAgainWhatMayPassAndGivesUpInTheEnd) {
  Session session(settings(), at(0));
  double now = 0;
  int tries = 0;
  while (session.step() != Step::over) {
    ASSERT_LT(tries, 1000);
    if (session.step() == Step::wait) {
      EXPECT_GE(session.wake_at(), at(now));
      now = to_seconds(session.wake_at().time_since_epoch());
      session.waited(at(now));
    } else {
      ++tries;
      session.failed({Code::network_refused, "nobody listens", ""}, at(now), 0.5);
    }
  }
  EXPECT_GT(tries, 5);
  EXPECT_LE(now, to_seconds(settings().retry.give_up_after) + 60);
  EXPECT_EQ(session.exit_code(), 12);
}

TEST(Session, GivesUpAtOnceOnWhatCannotPass) {
  for (const Code code : {Code::tls_untrusted, Code::tls_name, Code::identity, Code::refused}) {
    Session session(settings(), at(0));
    session.failed({code, "no", "cure"}, at(1), 0);
    EXPECT_EQ(session.step(), Step::over) << code_name(code);
    EXPECT_EQ(session.exit_code(), static_cast<int>(code));
    EXPECT_EQ(session.error()->cure, "cure");
  }
}

TEST(Session, EndsWithoutFaultWhenTheRunIsFinished) {
  Session session(settings(), at(0));
  session.failed({Code::run_finished, "the run 'mnist' is finished", ""}, at(1), 0);
  EXPECT_EQ(session.step(), Step::over);
  EXPECT_EQ(session.exit_code(), 0);
  EXPECT_EQ(session.reason(), "the run 'mnist' is finished");
}

TEST(Session, SendsThePartThatIsDoneWhenInterrupted) {
  Session session = training();
  EXPECT_FALSE(session.finishing());
  session.interrupt("SIGTERM", at(3));
  EXPECT_TRUE(session.finishing());
  ASSERT_EQ(session.step(), Step::train);
  session.trained(steps(7), at(4));
  ASSERT_EQ(session.step(), Step::upload);
  EXPECT_EQ(session.metadata().steps_run, 7);
  session.uploaded(answer(Disposition::counted, segment(2, 5)), at(5));
  EXPECT_EQ(session.step(), Step::report);
  session.reported();
  EXPECT_EQ(session.exit_code(), 0);
  EXPECT_EQ(session.reason(), "SIGTERM");
}

TEST(Session, SendsNothingWhenNoStepWasRun) {
  Session session = training();
  session.interrupt("SIGUSR1", at(3));
  session.trained(steps(0), at(4));
  EXPECT_EQ(session.step(), Step::report);
}

TEST(Session, AnInterruptEndsAWait) {
  Session session(settings(), at(0));
  session.enrolled(job(wait_for(3000)), at(1));
  session.interrupt("SIGTERM", at(2));
  EXPECT_EQ(session.step(), Step::report);
  session.waited(at(3));  // the loop wakes up late
  EXPECT_EQ(session.step(), Step::report);
}

TEST(Session, FinishesWhenTheServerAsksForIt) {
  Session session = training();
  ASSERT_TRUE(session.heartbeat_due());
  EXPECT_EQ(*session.heartbeat_due(), at(11));
  session.heartbeat_answered({HeartbeatAnswer::State::go_on, ""}, at(11));
  EXPECT_EQ(*session.heartbeat_due(), at(21));
  EXPECT_FALSE(session.finishing());
  session.heartbeat_answered({HeartbeatAnswer::State::finish, "a successor has started"}, at(21));
  EXPECT_TRUE(session.finishing());
  EXPECT_FALSE(session.abandoned());
}

TEST(Session, SendsNothingMoreOnceFenced) {
  Session session = training();
  session.heartbeat_answered({HeartbeatAnswer::State::fenced, "restart 1 registered"}, at(11));
  EXPECT_TRUE(session.abandoned());
  EXPECT_FALSE(session.heartbeat_due());
  session.trained(steps(40), at(12));
  EXPECT_EQ(session.step(), Step::over);
  EXPECT_EQ(session.exit_code(), 56);
  EXPECT_NE(session.reason().find("restart 1 registered"), std::string::npos);
}

TEST(Session, AMissedHeartbeatDoesNotStopTraining) {
  Session session = training();
  session.heartbeat_failed({Code::network_timeout, "no answer", ""}, at(11));
  EXPECT_EQ(session.step(), Step::train);
  EXPECT_EQ(*session.heartbeat_due(), at(21));
}

TEST(Session, AsksForAnotherBaseWhenItsOwnWasPruned) {
  Session session(settings(), at(0));
  session.enrolled(job(segment(1, 4)), at(1));
  for (int lost = 0; lost < 3; ++lost) {
    session.failed({Code::not_found, "version 4 was pruned", ""}, at(2), 0);
    ASSERT_EQ(session.step(), Step::wait);
    session.waited(at(3));
    ASSERT_EQ(session.step(), Step::enrol);
    session.enrolled(job(segment(1, 5)), at(3));
  }
  session.failed({Code::not_found, "version 5 was pruned", ""}, at(4), 0);
  EXPECT_EQ(session.step(), Step::report);
  EXPECT_EQ(session.end().state, "failed");
}

TEST(Session, LeavesBeforeTheAllocationEnds) {
  SessionSettings limited = settings();
  limited.ends_at = at(100);
  limited.reserve = std::chrono::seconds(10);
  Session session = training(limited);
  ASSERT_TRUE(session.train_until());
  EXPECT_EQ(*session.train_until(), at(90));
  session.trained(steps(12), at(91));
  EXPECT_EQ(session.upload_retry(at(91)).give_up_after, std::chrono::seconds(9));
  session.uploaded(answer(Disposition::counted, segment(2, 5)), at(92));
  EXPECT_EQ(session.step(), Step::report);
  session.reported();
  EXPECT_EQ(session.exit_code(), 0);

  Session waiting(limited, at(0));
  waiting.enrolled(job(wait_for(95)), at(1));
  EXPECT_EQ(waiting.step(), Step::report);
}

TEST(Session, SaysSoWhenEveryUpdateWasRejected) {
  Session session = training();
  session.trained(steps(40), at(3));
  session.uploaded(answer(Disposition::rejected, stop()), at(4));
  session.reported();
  EXPECT_EQ(session.exit_code(), 60);
  EXPECT_EQ(session.updates_rejected(), 1);
}

// Whatever happens in whatever order, the session ends, and after its end asks for nothing.
TEST(Session, EndsUnderAnyMixOfFailures) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Prng random(seed);
    SessionSettings with = settings();
    with.ends_at = at(3600);
    Session session(with, at(0));
    double now = 0;
    int performed = 0;
    while (session.step() != Step::over && performed < 100000) {
      ++performed;
      now += random.uniform();
      if (random.uniform() < 0.02) session.interrupt("signal", at(now));
      if (session.heartbeat_due() && random.uniform() < 0.01) {
        session.heartbeat_answered({HeartbeatAnswer::State::fenced, ""}, at(now));
        continue;
      }
      if (session.step() == Step::wait) {
        now = std::max(now, to_seconds(session.wake_at().time_since_epoch()));
        session.waited(at(now));
        continue;
      }
      if (random.uniform() < 0.3 && session.step() != Step::train) {
        session.failed({Code::network, "cut", ""}, at(now), random.uniform());
        continue;
      }
      switch (session.step()) {
        case Step::enrol:
          session.enrolled(job(random.uniform() < 0.5 ? wait_for(5) : segment(1, 1)), at(now));
          break;
        case Step::fetch:
          session.fetched(at(now));
          break;
        case Step::train:
          session.trained(steps(static_cast<std::int64_t>(random.below(3))), at(now));
          break;
        case Step::upload:
          session.uploaded(
              answer(Disposition::counted, random.uniform() < 0.5 ? wait_for(1) : segment(2, 1)),
              at(now));
          break;
        case Step::ask:
          session.asked(
              answer(Disposition::counted, random.uniform() < 0.5 ? wait_for(1) : segment(2, 1)),
              at(now));
          break;
        case Step::report:
          session.reported();
          break;
        case Step::wait:
        case Step::over:
          break;
      }
    }
    EXPECT_EQ(session.step(), Step::over) << "seed " << seed;
    EXPECT_FALSE(session.heartbeat_due()) << "seed " << seed;
  }
}

TEST(Session, AsksForTheNextSegmentThatTheUploadCouldNotName) {
  Session session = training();
  session.trained(steps(40), at(3));
  session.uploaded(answer(Disposition::counted, wait_for(0.5)), at(4));
  ASSERT_EQ(session.step(), Step::wait);
  EXPECT_EQ(session.wake_at(), at(4.5));
  session.waited(at(4.5));
  ASSERT_EQ(session.step(), Step::ask);
  EXPECT_EQ(session.update_id().str(), "site-a.10001.0.1") << "of the update that was sent";
  session.asked(answer(Disposition::counted, wait_for(0.5)), at(5));
  session.waited(at(5.5));
  ASSERT_EQ(session.step(), Step::ask);
  session.asked(answer(Disposition::counted, segment(2, 5)), at(6));
  ASSERT_EQ(session.step(), Step::fetch);
  EXPECT_EQ(session.segment().index, 2);
  EXPECT_EQ(session.updates_accepted(), 1);
}

TEST(Session, RegistersAgainWhenTheServerNoLongerKnowsItsUpdate) {
  Session session = training();
  session.trained(steps(40), at(3));
  session.uploaded(answer(Disposition::counted, wait_for(0.5)), at(4));
  session.waited(at(4.5));
  session.failed({Code::not_found, "not known", ""}, at(5), 0);
  EXPECT_EQ(session.step(), Step::enrol);
}

TEST(Session, AnInterruptWhileItAsksEndsItWithoutAnotherSegment) {
  Session session = training();
  session.trained(steps(40), at(3));
  session.uploaded(answer(Disposition::counted, wait_for(0.5)), at(4));
  session.waited(at(4.5));
  session.interrupt("time is over", at(4.6));
  session.asked(answer(Disposition::counted, segment(2, 5)), at(5));
  EXPECT_EQ(session.step(), Step::report);
  EXPECT_EQ(session.reason(), "time is over");
}

}  // namespace
}  // namespace fedqueue
