// What a facility relies on when it leaves an agent alone with its allocation.
#include "fedclient/agent/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/fedclient/agent/played_site.h"

namespace fedqueue::test {
namespace {

using Step = AgentMachine::Step;

class AgentMachineTest : public testing::Test {
 protected:
  AgentMachine started(AgentSettings settings = {}) {
    settings.seed = ++seed_;
    return AgentMachine(settings, site_.stored, site_.now);
  }
  PlayedJob& job(std::size_t index) { return site_.scheduler.jobs.at(index); }

  Stepper site_;

 private:
  std::uint64_t seed_ = 0;
};

TEST_F(AgentMachineTest, SubmitsWatchesSettlesAndSubmitsTheNext) {
  AgentMachine agent = started();
  site_.settle(agent);
  ASSERT_EQ(site_.scheduler.submissions, 1);
  EXPECT_EQ(site_.server.requests[0].key, job(0).view.token);
  site_.scheduler.start(job(0));
  site_.run_for(agent, std::chrono::minutes(2));
  EXPECT_EQ(site_.stored.jobs.at(0).phase, JobPhase::running);
  PlayedScheduler::end(job(0), "COMPLETED");
  site_.run_for(agent, std::chrono::minutes(5));
  EXPECT_EQ(site_.server.ends.at("10001.0").state, "COMPLETED");
  EXPECT_EQ(site_.scheduler.submissions, 2);
  EXPECT_NE(job(0).view.token, job(1).view.token);
}

TEST_F(AgentMachineTest, TheTokenIsOnDiskBeforeItIsUsed) {
  AgentMachine agent = started();
  for (int steps = 0; site_.scheduler.submissions == 0; ++steps) {
    ASSERT_LT(steps, 20);
    const Step step = agent.step(site_.now);
    if (step == Step::ask_plan || step == Step::submit) {
      ASSERT_TRUE(site_.stored.intent);
      EXPECT_EQ(site_.stored.intent->token, agent.intent().token);
    }
    if (step == Step::submit) {
      EXPECT_TRUE(site_.stored.intent->planned);
    }
    site_.perform(agent, step);
  }
}

TEST_F(AgentMachineTest, ASubmissionWithoutAnAnswerIsLookedForAndNotRepeated) {
  site_.scheduler.submit_error = Error{Code::try_again, "sbatch did not end in time", ""};
  site_.scheduler.submit_works_all_the_same = true;
  AgentMachine agent = started();
  site_.run_for(agent, std::chrono::seconds(300));
  EXPECT_EQ(site_.scheduler.submissions, 1);
  EXPECT_EQ(site_.stored.jobs.size(), 1u);
  EXPECT_FALSE(site_.stored.intent && site_.stored.intent->planned);
}

TEST_F(AgentMachineTest, ALostSubmissionIsRepeatedWithTheSameTokenAfterLookingTwice) {
  site_.scheduler.submit_error = Error{Code::try_again, "sbatch did not end in time", ""};
  AgentMachine agent = started();
  const Instant begin = site_.now;
  site_.settle(agent);
  ASSERT_TRUE(site_.stored.intent);
  const std::string token = site_.stored.intent->token;
  site_.scheduler.submit_error.reset();
  while (site_.scheduler.submissions < 2) site_.advance(agent, std::chrono::seconds(30));
  EXPECT_GE(site_.now - begin, AgentSettings().settle_time);
  EXPECT_EQ(job(0).view.token, token);
  EXPECT_EQ(site_.scheduler.live(), 1);
}

TEST_F(AgentMachineTest, ASubmissionThatTurnsUpLateLosesItsTwin) {
  site_.scheduler.submit_error = Error{Code::try_again, "no answer", ""};
  site_.scheduler.submit_works_all_the_same = true;
  AgentMachine agent = started();
  site_.settle(agent);
  job(0).shown = false;  // the controller is slow to show it
  site_.scheduler.submit_error.reset();
  while (site_.scheduler.submissions < 2) site_.advance(agent, std::chrono::seconds(30));
  job(0).shown = true;
  site_.run_for(agent, std::chrono::minutes(5));
  EXPECT_EQ(site_.scheduler.live(), 1);
  EXPECT_EQ(site_.scheduler.submissions, 2);
}

TEST_F(AgentMachineTest, ALimitOfTheSiteIsWaitedFor) {
  site_.scheduler.submit_error = Error{Code::scheduler_limit, "AssocMaxSubmitJobLimit", ""};
  AgentMachine agent = started();
  while (site_.scheduler.submissions < 3) {
    site_.advance(agent, std::chrono::minutes(5));
    ASSERT_NE(agent.step(site_.now), Step::over);
    if (agent.step(site_.now) == Step::wait) {
      EXPECT_THAT(agent.waiting_for(), testing::HasSubstr("limit of the site"));
    }
  }
  site_.scheduler.submit_error.reset();
  while (site_.scheduler.live() == 0) site_.advance(agent, std::chrono::minutes(5));
  // It is one plan all the time.
  for (const PlanRequest& request : site_.server.requests) {
    if (request.pending_jobs == 0) {
      EXPECT_EQ(request.key, job(0).view.token);
    }
  }
}

TEST_F(AgentMachineTest, TheRunMayEndWhileALimitIsWaitedFor) {
  site_.scheduler.submit_error = Error{Code::scheduler_limit, "QOSMaxSubmitJobPerUserLimit", ""};
  AgentMachine agent = started();
  site_.settle(agent);
  site_.server.verb = PlanAnswer::Verb::stop;
  site_.run_for(agent, std::chrono::minutes(50));
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(agent.exit_code(), 0);
  EXPECT_FALSE(site_.stored.intent);
}

TEST_F(AgentMachineTest, AJobThatCanNeverBeAcceptedEndsTheAgent) {
  site_.scheduler.submit_error =
      Error{Code::scheduler_refused, "sbatch: error: invalid partition specified: gpuu", ""};
  AgentMachine agent = started();
  site_.settle(agent);
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(agent.exit_code(), 32);
  EXPECT_THAT(agent.reason(), testing::HasSubstr("gpuu"));
  EXPECT_EQ(site_.scheduler.submissions, 1);
  EXPECT_FALSE(site_.stored.intent);
}

TEST_F(AgentMachineTest, JobsThatFailAreNotPouredIntoTheQueue) {
  AgentMachine agent = started();
  const Instant begin = site_.now;
  while (agent.step(site_.now) != Step::over) {
    site_.run_for(agent, std::chrono::minutes(1));
    ASSERT_LT(site_.now - begin, std::chrono::hours(100));
    for (PlayedJob& failing : site_.scheduler.jobs) {
      if (failing.view.phase != JobPhase::ended) PlayedScheduler::end(failing, "FAILED");
    }
  }
  EXPECT_EQ(site_.scheduler.submissions, AgentSettings().failures_max);
  EXPECT_GT(site_.now - begin, std::chrono::hours(1));
  EXPECT_EQ(agent.exit_code(), 40);
  EXPECT_THAT(agent.reason(), testing::HasSubstr("exit code 0:0"));
}

TEST_F(AgentMachineTest, AFailedJobWhoseWorkCountsIsFollowedAtOnce) {
  AgentMachine agent = started();
  site_.settle(agent);
  site_.scheduler.start(job(0));
  PlayedScheduler::end(job(0), "FAILED");
  site_.server.left_behind = 1;
  site_.run_for(agent, AgentSettings().poll_interval * 2);
  EXPECT_EQ(site_.scheduler.submissions, 2);
}

TEST_F(AgentMachineTest, OneFailureAmongGoodJobsDoesNotCount) {
  AgentMachine agent = started();
  for (int i = 0; i < 40; ++i) {
    site_.run_for(agent, std::chrono::minutes(3));
    for (PlayedJob& live : site_.scheduler.jobs) {
      if (live.view.phase == JobPhase::ended) continue;
      PlayedScheduler::end(live, i % 2 == 0 ? "FAILED" : "TIMEOUT");
    }
  }
  EXPECT_NE(agent.step(site_.now), Step::over);
  EXPECT_GE(site_.scheduler.submissions, 30);
}

TEST_F(AgentMachineTest, ABlindSchedulerIsNotFloodedWithJobs) {
  site_.scheduler.blind = true;
  AgentSettings settings;
  settings.jobs_max = 2;
  settings.pending_max = 2;
  AgentMachine agent = started(settings);
  site_.server.jobs_wanted = 1000;
  site_.run_for(agent, std::chrono::seconds(1000));
  EXPECT_EQ(site_.scheduler.submissions, settings.jobs_max);
}

TEST_F(AgentMachineTest, OneJobIsQueuedAtMost) {
  site_.server.jobs_wanted = 1000;
  AgentMachine agent = started();
  site_.run_for(agent, std::chrono::minutes(50));
  EXPECT_EQ(site_.scheduler.live(), 1);
  site_.scheduler.start(job(0));
  site_.run_for(agent, std::chrono::minutes(50));
  EXPECT_EQ(site_.scheduler.live(), 2);  // the successor waits while its predecessor runs
}

TEST_F(AgentMachineTest, AsksTheSchedulerRarely) {
  AgentMachine agent = started();
  const Instant end = site_.now + std::chrono::minutes(10);
  while (site_.now < end) site_.advance(agent, std::chrono::seconds(10));
  EXPECT_LE(site_.scheduler.polls, 12);
  EXPECT_GE(site_.scheduler.polls, 5);
}

TEST_F(AgentMachineTest, AsksLessOftenWhenTheSchedulerFails) {
  AgentMachine agent = started();
  site_.settle(agent);
  site_.scheduler.poll_error = Error{Code::try_again, "cannot contact the controller", ""};
  const Instant end = site_.now + std::chrono::hours(1);
  const int before = site_.scheduler.polls;
  while (site_.now < end) site_.advance(agent, std::chrono::seconds(10));
  EXPECT_LE(site_.scheduler.polls - before, 10);
  EXPECT_EQ(agent.live_jobs(), 1);  // not seeing a job proves nothing
}

TEST_F(AgentMachineTest, ASlowAnswerMakesTheNextQuestionLater) {
  AgentMachine agent = started();
  site_.settle(agent);
  const Instant now = site_.now;
  agent.polled({job(0).view}, std::chrono::seconds(20), now);
  site_.settle(agent);
  ASSERT_EQ(agent.step(now), Step::wait);
  site_.now = now + AgentSettings().poll_interval * 3 / 2;
  const int before = site_.scheduler.polls;
  site_.settle(agent);
  EXPECT_EQ(site_.scheduler.polls, before);
}

TEST_F(AgentMachineTest, AJobThatLeftTheListingIsSettledAsVanished) {
  AgentMachine agent = started();
  site_.settle(agent);
  site_.run_for(agent, std::chrono::minutes(2));
  job(0).shown = false;
  job(0).view.phase = JobPhase::ended;
  site_.run_for(agent, std::chrono::minutes(8));
  EXPECT_EQ(site_.server.ends.at("10001.0").state, "VANISHED");
  EXPECT_EQ(site_.scheduler.submissions, 2);
}

TEST_F(AgentMachineTest, ARequeuedJobIsTheSameJobAndAnotherAttempt) {
  AgentMachine agent = started();
  site_.settle(agent);
  site_.scheduler.start(job(0));
  site_.run_for(agent, std::chrono::minutes(2));
  job(0).view.phase = JobPhase::queued;
  job(0).view.restart_count = 1;
  site_.run_for(agent, std::chrono::minutes(4));
  EXPECT_EQ(site_.scheduler.submissions, 1);
  PlayedScheduler::end(job(0), "TIMEOUT");
  site_.run_for(agent, std::chrono::minutes(4));
  EXPECT_EQ(site_.server.ends.count("10001.1"), 1u);
}

TEST_F(AgentMachineTest, AnEndIsReportedUntilTheServerKnows) {
  AgentMachine agent = started();
  site_.settle(agent);
  PlayedScheduler::end(job(0), "FAILED");
  site_.server.end_error = Error{Code::network_refused, "nobody listens", ""};
  site_.server.plan_error = site_.server.end_error;
  site_.run_for(agent, std::chrono::minutes(10));
  ASSERT_EQ(site_.stored.jobs.size(), 1u);
  // Even by the next agent.
  AgentMachine next = started();
  site_.server.end_error.reset();
  site_.server.plan_error.reset();
  site_.run_for(next, std::chrono::minutes(3));
  EXPECT_EQ(site_.server.ends.at("10001.0").state, "FAILED");
}

TEST_F(AgentMachineTest, JobsStayWhenTheAgentIsStoppedAndAreFoundAgain) {
  AgentMachine agent = started();
  site_.settle(agent);
  agent.stop("SIGTERM", site_.now);
  site_.settle(agent);
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(agent.exit_code(), 0);
  EXPECT_EQ(site_.scheduler.cancels, 0);
  AgentMachine next = started();
  site_.run_for(next, std::chrono::minutes(3));
  EXPECT_EQ(site_.scheduler.submissions, 1);
  EXPECT_EQ(next.live_jobs(), 1);
}

TEST_F(AgentMachineTest, JobsAreFoundAgainEvenWithoutTheStateDirectory) {
  AgentMachine agent = started();
  site_.settle(agent);
  site_.stored = AgentState();
  AgentMachine next = started();
  site_.run_for(next, std::chrono::minutes(3));
  EXPECT_EQ(site_.scheduler.submissions, 1);
  EXPECT_EQ(site_.stored.jobs.size(), 1u);
}

TEST_F(AgentMachineTest, JobsAreCancelledOnExitIfAskedFor) {
  AgentSettings settings;
  settings.cancel_on_exit = true;
  site_.server.jobs_wanted = 2;
  AgentMachine agent = started(settings);
  site_.settle(agent);
  site_.scheduler.start(job(0));
  site_.run_for(agent, std::chrono::minutes(3));
  ASSERT_EQ(site_.scheduler.live(), 2);
  agent.stop("SIGINT", site_.now);
  for (int i = 0; i < 5; ++i) site_.advance(agent);
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(site_.scheduler.live(), 0);
  EXPECT_TRUE(agent.left().empty());
  EXPECT_EQ(agent.exit_code(), 0);
}

TEST_F(AgentMachineTest, JobsAreCancelledWhenTheRunIsOver) {
  AgentMachine agent = started();
  site_.settle(agent);
  site_.server.plan_error = Error{Code::run_finished, "the run 'mnist' is finished", ""};
  site_.run_for(agent, std::chrono::minutes(6));
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(site_.scheduler.live(), 0);
  EXPECT_EQ(agent.exit_code(), 0);
  EXPECT_EQ(agent.reason(), "the run 'mnist' is finished");
}

TEST_F(AgentMachineTest, ARunningJobMayEndByItselfWhenTheRunIsOver) {
  AgentMachine agent = started();
  site_.settle(agent);
  site_.scheduler.start(job(0));
  site_.run_for(agent, std::chrono::minutes(3));
  site_.server.verb = PlanAnswer::Verb::stop;
  site_.settle(agent);
  ASSERT_EQ(agent.step(site_.now), Step::wait);
  PlayedScheduler::end(job(0), "COMPLETED");
  site_.run_for(agent, std::chrono::seconds(30));
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(site_.scheduler.cancels, 0);
  EXPECT_EQ(site_.server.ends.at("10001.0").state, "COMPLETED");
  EXPECT_EQ(agent.exit_code(), 0);
}

TEST_F(AgentMachineTest, AJobThatGoesOnAfterTheRunIsCancelled) {
  AgentMachine agent = started();
  site_.settle(agent);
  site_.scheduler.start(job(0));
  site_.run_for(agent, std::chrono::minutes(3));
  site_.server.verb = PlanAnswer::Verb::stop;
  site_.run_for(agent, std::chrono::minutes(5));
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(site_.scheduler.live(), 0);
  EXPECT_GT(site_.scheduler.cancels, 0);
  EXPECT_EQ(agent.exit_code(), 0);
}

TEST_F(AgentMachineTest, WhatCannotBeCancelledIsReported) {
  AgentSettings settings;
  settings.cancel_on_exit = true;
  AgentMachine agent = started(settings);
  site_.settle(agent);
  agent.stop("SIGTERM", site_.now);
  for (int i = 0; i < 50; ++i) {  // a scancel that does nothing
    const Step step = agent.step(site_.now);
    if (step == Step::cancel) {
      agent.cancel_sent(site_.now);
    } else if (step == Step::wait) {
      site_.now = agent.wake_at();
    } else {
      site_.perform(agent, step);
    }
  }
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(agent.left(), std::vector<std::string>{"10001"});
  EXPECT_EQ(agent.exit_code(), 30);
}

TEST_F(AgentMachineTest, ASchedulerThatNeverAnswersDoesNotKeepAStoppedAgent) {
  site_.scheduler.poll_error = Error{Code::try_again, "cannot contact the controller", ""};
  AgentSettings settings;
  settings.cancel_on_exit = true;
  AgentMachine agent = started(settings);
  site_.settle(agent);
  ASSERT_EQ(agent.step(site_.now), Step::wait);
  agent.stop("SIGTERM", site_.now);
  site_.run_for(agent, std::chrono::minutes(5));
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(agent.exit_code(), 30);
}

TEST_F(AgentMachineTest, OnceDoesWhatIsDueAndLeaves) {
  AgentSettings settings;
  settings.once = true;
  AgentMachine agent = started(settings);
  site_.settle(agent);
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(site_.scheduler.submissions, 1);
  EXPECT_EQ(agent.exit_code(), 0);
  PlayedScheduler::end(job(0), "COMPLETED");
  AgentMachine next = started(settings);
  site_.settle(next);
  EXPECT_EQ(site_.server.ends.size(), 1u);
  EXPECT_EQ(site_.scheduler.submissions, 2);
}

TEST_F(AgentMachineTest, AServerThatIsAwayIsWaitedFor) {
  site_.server.plan_error = Error{Code::network_refused, "nobody listens", ""};
  AgentMachine agent = started();
  site_.run_for(agent, std::chrono::hours(100));
  EXPECT_EQ(agent.step(site_.now), Step::wait);
  site_.server.plan_error.reset();
  site_.run_for(agent, std::chrono::hours(3));
  EXPECT_EQ(site_.scheduler.submissions, 1);
}

TEST_F(AgentMachineTest, ARefusedCertificateEndsTheAgent) {
  site_.server.plan_error = Error{Code::revoked, "the certificate of site-a was revoked", ""};
  AgentMachine agent = started();
  site_.settle(agent);
  EXPECT_EQ(agent.step(site_.now), Step::over);
  EXPECT_EQ(agent.exit_code(), 26);
}

// Kills the agent before or after any of its steps, with submissions that lose their answer or the
// job, and starts another: never two live jobs, and every job that ended is settled.
TEST_F(AgentMachineTest, AKillAtAnyPointNeverMakesASecondJob) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Stepper site;
    Prng random(seed);
    AgentSettings settings;
    settings.seed = seed;
    settings.poll_interval = std::chrono::seconds(10);
    std::optional<AgentMachine> agent;
    int rounds = 0;
    while (rounds < 4) {
      if (!agent) {
        settings.seed = random.next();
        agent.emplace(settings, site.stored, site.now);
      }
      site.scheduler.submit_error.reset();
      if (random.uniform() < 0.3) {
        site.scheduler.submit_error = Error{Code::try_again, "no answer", ""};
        site.scheduler.submit_works_all_the_same = random.uniform() < 0.5;
      }
      const Step step = agent->step(site.now);
      if (random.uniform() < 0.1) {  // killed: after the step, or in the middle of it
        if (random.uniform() < 0.5) site.perform(*agent, step);
        agent.reset();
        continue;
      }
      if (step == Step::wait) {
        site.now = std::max(site.now, agent->wake_at());
      } else {
        site.perform(*agent, step);
      }
      ASSERT_LE(site.scheduler.live(), 1) << "seed " << seed;
      for (PlayedJob& job : site.scheduler.jobs) {
        if (job.view.phase == JobPhase::ended) continue;
        if (job.view.phase == JobPhase::queued && random.uniform() < 0.1) {
          site.scheduler.start(job);
        } else if (job.view.phase == JobPhase::running && random.uniform() < 0.1) {
          PlayedScheduler::end(job, "COMPLETED");
          ++rounds;
        }
      }
    }
    for (int i = 0; i < 20 && agent; ++i) site.advance(*agent, std::chrono::minutes(1));
    if (!agent) continue;
    int ended = 0;
    for (const PlayedJob& job : site.scheduler.jobs) ended += job.view.phase == JobPhase::ended;
    EXPECT_EQ(static_cast<int>(site.server.ends.size()), ended) << "seed " << seed;
  }
}

}  // namespace
}  // namespace fedqueue::test
