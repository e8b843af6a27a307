// The product's own server, agents and sessions in the worlds of experiments, with a learner that
// is arithmetic.
#include "simulation/federation/federation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace fedqueue::simulation {
namespace {

// Facility k pulls the one weight of the model towards 1 + k/10; accuracy is the nearness to the
// mean of those.
class Pull final : public Learner {
 public:
  explicit Pull(int facilities) : facilities_(facilities) {
    tensor::TensorInfo info;
    info.name = "w";
    info.dtype = tensor::DType::f32;
    info.shape = {1};
    manifest_ = *tensor::lay_out({info});
  }
  [[nodiscard]] const tensor::Manifest& manifest() const override { return manifest_; }
  [[nodiscard]] Bytes initial() const override { return to_bytes(std::vector<float>{0}); }
  [[nodiscard]] std::int64_t samples(int) const override { return 100; }
  Result<Learned> train(std::span<const std::byte> base, const Lesson& lesson) override {
    const float begin = to_floats(base)[0];
    const double goal = 1 + lesson.facility / 10.0;
    const double kept = std::pow(1 - lesson.learning_rate, static_cast<double>(lesson.steps));
    const auto delta = static_cast<float>((goal - begin) * (1 - kept));
    steps += lesson.steps;
    return Learned{to_bytes(std::vector<float>{delta}), std::abs(goal - begin), lesson.steps};
  }
  Result<Grade> evaluate(std::span<const std::byte> model) override {
    const double goal = 1 + (facilities_ - 1) / 20.0;
    const double distance = std::abs(to_floats(model)[0] - goal);
    return Grade{std::max(0.0, 1 - distance), distance};
  }

  std::int64_t steps = 0;

 private:
  int facilities_;
  tensor::Manifest manifest_;
};

Setting calm() {
  Setting setting;
  setting.name = "calm";
  setting.queue_mean_s = {1};
  setting.horizon_s = 120;
  setting.job_time_limit_s = 40;
  setting.step_s = {0.2};
  setting.target = 0.85;
  return setting;
}

PolicyConfig policy(const std::vector<std::pair<std::string, std::string>>& options) {
  PolicyConfig config;
  for (const auto& [name, value] : options) EXPECT_TRUE(config.set(name, value)) << name;
  return config;
}

CellResult run(const Setting& setting, const PolicyConfig& config, const Logs& logs = {}) {
  Pull learner(setting.facilities);
  FederationOptions options;
  options.keep_spans = true;
  const auto result = run_federation(setting, config, {Phase::tuned, setting.name, "p", 3, "-"},
                                     learner, logs, options);
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return {};
  EXPECT_GE(learner.steps, result->steps_run);
  return *result;
}

PolicyConfig fedavg() {
  return policy(
      {{"policy", "fedavg"}, {"local_steps", "30"}, {"lr_base", "0.02"}, {"t_sync", "10"}});
}

TEST(Federation, SynchronousRoundsReachTheTarget) {
  const CellResult result = run(calm(), fedavg());
  EXPECT_GT(result.versions, 5);
  EXPECT_EQ(result.updates_counted, 4 * result.versions) << "everybody in every round";
  EXPECT_EQ(result.staleness.size(), 1u);
  EXPECT_EQ(result.staleness.begin()->first, 0);
  EXPECT_GT(result.final_accuracy, 0.9);
  EXPECT_TRUE(time_to_target_s(result.curve, 0.85));
  EXPECT_EQ(result.curve.size(), 61u);
  EXPECT_EQ(result.curve.front().accuracy, 0) << "the initial model";
}

TEST(Federation, TheSameSeedGivesTheSameStory) {
  CellResult first = run(calm(), fedavg());
  CellResult again = run(calm(), fedavg());
  EXPECT_EQ(encode(first), encode(again));
}

TEST(Federation, WaitsAreThoseOfTheWorldWhateverThePolicy) {
  Setting setting = calm();
  setting.world = WorldKind::fixed;
  setting.queue_fixed_s = {3, 5};
  const CellResult result = run(setting, fedavg());
  ASSERT_FALSE(result.queue_waits_s.empty());
  for (const double wait : result.queue_waits_s)
    EXPECT_TRUE(std::abs(wait - 3) < 0.01 || std::abs(wait - 5) < 0.01) << wait;
}

TEST(Federation, NodeTimeIsAccountedFor) {
  const CellResult result = run(calm(), fedavg());
  EXPECT_GT(result.node_seconds_used, 0);
  EXPECT_LE(result.training_seconds, result.node_seconds_used);
  EXPECT_LE(result.node_seconds_wasted, result.node_seconds_used);
  EXPECT_NEAR(result.training_seconds, 0.2 * static_cast<double>(result.steps_run),
              0.1 * result.training_seconds);
  double running = 0;
  for (const Span& span : result.spans) {
    EXPECT_LE(span.begin_s, span.end_s);
    EXPECT_LE(span.end_s, 120.001);
    if (span.activity != Activity::waiting) running += span.end_s - span.begin_s;
  }
  EXPECT_NEAR(running, result.node_seconds_used, 0.01 * running);
  EXPECT_GT(result.bytes_up, 0);
  EXPECT_GT(result.bytes_down, 0);
}

TEST(Federation, AJobsNodesAllCount) {
  Setting setting = calm();
  const CellResult one = run(setting, fedavg());
  setting.job_nodes = 4;
  const CellResult four = run(setting, fedavg());
  EXPECT_NEAR(four.node_seconds_used, 4 * one.node_seconds_used, 1e-3);
}

TEST(Federation, PublishedFedQueueRunsOneJobPerRound) {
  const CellResult result = run(calm(), policy({{"policy", "fedqueue"},
                                                {"semantics", "published"},
                                                {"t_sync", "10"},
                                                {"theta", "2"},
                                                {"warm_up_steps", "10"},
                                                {"lr_base", "0.02"},
                                                {"staleness_fn", "harmonic:0.5"}}));
  EXPECT_GT(result.versions, 4);
  EXPECT_GT(result.final_accuracy, 0.8);
  EXPECT_GE(result.jobs, result.updates_counted);
}

TEST(Federation, JobsThatDieAreCountedAndTheRunGoesOn) {
  Setting setting = calm();
  setting.failure_rate = 0.3;
  setting.job_time_limit_s = 15;
  const CellResult result = run(setting, fedavg());
  EXPECT_GT(result.jobs_failed, 0);
  EXPECT_GT(result.versions, 1);
  EXPECT_GT(result.node_seconds_wasted, 0);
}

TEST(Federation, OurJobsReallyQueueAtASimulatedSite) {
  Setting setting = calm();
  setting.world = WorldKind::site;
  setting.site_nodes = 16;
  setting.job_nodes = 4;
  setting.site_load = 1.1;
  setting.time_scale = 0.01;
  setting.site_warm_up_s = 1000;
  const CellResult result = run(setting, fedavg());
  ASSERT_FALSE(result.queue_waits_s.empty());
  double longest = 0;
  for (const double wait : result.queue_waits_s) longest = std::max(longest, wait);
  EXPECT_GT(longest, 0.1) << "others were before us";
}

TEST(Federation, ALogIsReplayed) {
  Setting setting = calm();
  setting.world = WorldKind::replay;
  setting.trace = "log";
  setting.time_scale = 0.1;
  Logs logs;
  for (int i = 0; i < 50; ++i) {
    SwfJob job;
    job.submit_s = 100 * i;
    job.wait_s = 40;
    job.run_s = 1;
    job.processors = 1;
    logs["log"].jobs.push_back(job);
  }
  const CellResult result = run(setting, fedavg(), logs);
  ASSERT_FALSE(result.queue_waits_s.empty());
  for (const double wait : result.queue_waits_s) EXPECT_NEAR(wait, 4, 0.01);
}

TEST(Federation, TuningStopsWhenTheTargetIsReachedForGood) {
  Pull learner(4);
  FederationOptions options;
  options.stop_at_target = true;
  const auto result =
      run_federation(calm(), fedavg(), {Phase::tuning, "calm", "p", 3, "-"}, learner, {}, options);
  ASSERT_TRUE(result);
  const auto reached = time_to_target_s(result->curve, 0.85);
  ASSERT_TRUE(reached);
  EXPECT_NEAR(result->curve.back().at_s, *reached + 2 * 2, 1e-9) << "three evaluations in a row";
}

TEST(PolicyConfigOf, AWrongOptionIsNamedWithItsPolicy) {
  PolicySpec spec;
  spec.name = "mine";
  spec.options = {{"policy", "fedavg"}, {"local_stepz", "5"}};
  const auto config = policy_config(spec, {});
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("mine"), std::string::npos);
  EXPECT_NE(config.error().cure.find("local_steps"), std::string::npos);
}

// A loss that overflows: the policy has lost this run, and the cell can be written and read.
TEST(RunFederation, ALossThatIsNotFiniteIsScoredAsNothingLearnt) {
  class Overflowing final : public Learner {
   public:
    [[nodiscard]] const tensor::Manifest& manifest() const override { return pull_.manifest(); }
    [[nodiscard]] Bytes initial() const override { return pull_.initial(); }
    [[nodiscard]] std::int64_t samples(int facility) const override {
      return pull_.samples(facility);
    }
    Result<Learned> train(std::span<const std::byte> base, const Lesson& lesson) override {
      return pull_.train(base, lesson);
    }
    Result<Grade> evaluate(std::span<const std::byte> model) override {
      Grade grade = *pull_.evaluate(model);
      if (to_floats(model)[0] != 0) grade.loss = std::numeric_limits<double>::infinity();
      return grade;
    }

   private:
    Pull pull_{4};
  } learner;
  const auto result = run_federation(calm(), fedavg(), {Phase::tuned, "calm", "p", 3, "-"}, learner,
                                     {}, FederationOptions());
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->final_accuracy, 0);
  EXPECT_EQ(result->curve.back().loss, 0);
  EXPECT_TRUE(decode_cell(encode(*result)));
}

}  // namespace
}  // namespace fedqueue::simulation
