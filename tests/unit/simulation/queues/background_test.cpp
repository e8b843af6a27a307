#include "simulation/queues/background.h"

#include <gtest/gtest.h>

namespace fedqueue::simulation {
namespace {

SwfLog two_jobs() {
  SwfLog log;
  log.processors_max = 100;
  SwfJob job;
  job.submit_s = 1000;
  job.run_s = 60;
  job.requested_s = 600;
  job.processors = 50;
  job.user = 4;
  log.jobs.push_back(job);
  job.submit_s = 1100;
  job.requested_s = 10;  // ran longer than asked for, as some logs say
  job.processors = 1;
  log.jobs.push_back(job);
  job.submit_s = 1150;
  job.run_s = 0;
  log.jobs.push_back(job);
  return log;
}

TEST(BackgroundFromLog, JobsAreScaledToTheSiteAndToVirtualTime) {
  BackgroundOptions options;
  options.nodes = 10;
  options.time_scale = 0.1;
  options.begin_s = -5;
  const auto jobs = background_from_log(two_jobs(), 5, options);
  ASSERT_EQ(jobs.size(), 3u) << "the two usable ones, then the first again";
  EXPECT_DOUBLE_EQ(jobs[0].submit_s, -5);
  EXPECT_EQ(jobs[0].request.nodes, 5);
  EXPECT_DOUBLE_EQ(*jobs[0].request.run_s, 6);
  EXPECT_DOUBLE_EQ(jobs[0].request.limit_s, 60);
  EXPECT_EQ(jobs[0].request.user, 4);
  EXPECT_DOUBLE_EQ(jobs[1].submit_s, 5);
  EXPECT_EQ(jobs[1].request.nodes, 1);
  EXPECT_DOUBLE_EQ(jobs[1].request.limit_s, 6) << "never below its run time";
}

TEST(BackgroundFromLog, AnOffsetBeginsLaterInTheLog) {
  BackgroundOptions options;
  options.nodes = 100;
  options.offset_s = 60;
  const auto jobs = background_from_log(two_jobs(), 45, options);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_DOUBLE_EQ(jobs[0].submit_s, 40);
  EXPECT_EQ(jobs[0].request.nodes, 1);
}

TEST(BackgroundFromModel, OffersTheLoadAskedFor) {
  LoadModel model;
  model.load = 0.8;
  model.seed = 3;
  BackgroundOptions options;
  options.nodes = 128;
  const double span_s = 120.0 * 86400;
  const auto jobs = background_from_model(model, span_s, options);
  ASSERT_GT(jobs.size(), 1000u);
  double work = 0;
  double previous_s = 0;
  for (const BackgroundJob& job : jobs) {
    EXPECT_GE(job.submit_s, previous_s);
    previous_s = job.submit_s;
    ASSERT_GE(job.request.nodes, 1);
    ASSERT_LE(job.request.nodes, 128);
    ASSERT_GE(job.request.limit_s, *job.request.run_s);
    work += static_cast<double>(job.request.nodes) * *job.request.run_s;
  }
  EXPECT_NEAR(work / (128 * span_s), 0.8, 0.08);
}

TEST(BackgroundFromModel, TheSameSeedGivesTheSameJobs) {
  BackgroundOptions options;
  options.nodes = 16;
  options.time_scale = 0.01;
  options.begin_s = -100;
  LoadModel model;
  const auto first = background_from_model(model, 1000, options);
  const auto again = background_from_model(model, 1000, options);
  ASSERT_EQ(first.size(), again.size());
  ASSERT_FALSE(first.empty());
  EXPECT_GE(first[0].submit_s, -100);
  EXPECT_EQ(first.back().submit_s, again.back().submit_s);
  model.seed = 2;
  EXPECT_NE(background_from_model(model, 1000, options)[0].submit_s, first[0].submit_s);
}

TEST(BackgroundFromModel, ABusySiteMakesOurJobsWait) {
  LoadModel model;
  model.load = 1.2;
  BackgroundOptions options;
  options.nodes = 16;
  options.begin_s = -5e5;
  SiteConfig config;
  config.nodes = 16;
  SimulatedSite site(config, background_from_model(model, 2e6, options));
  (void)site.advance(0);
  SiteRequest ours;
  ours.nodes = 8;
  ours.limit_s = 3600;
  const auto job = site.submit(ours, 0);
  ASSERT_TRUE(job);
  (void)site.advance(2e6);
  ASSERT_TRUE(site.started_s(*job));
  EXPECT_GT(*site.started_s(*job), 0);
  EXPECT_GT(site.use().background_backfilled, 0);
}

}  // namespace
}  // namespace fedqueue::simulation
