// SCAFFOLD in simulated federations: the numbers of option II, and what it is for.
#include "simulation/federation/controlled_learner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/tensor/control.h"
#include "simulation/federation/algebra.h"
#include "simulation/federation/federation.h"

namespace fedqueue::simulation {
namespace {

// Each facility has ½·a·(w − m)² and trains one weight by gradient descent; a = 0 stands for the
// straight line with slope m. Accuracy is the nearness to the best mean of all.
class Parabolas final : public Learner {
 public:
  struct Loss {
    double curvature = 0;
    double minimum = 0;
  };
  explicit Parabolas(std::vector<Loss> losses) : losses_(std::move(losses)) {
    manifest_ = *tensor::lay_out({{"w", tensor::DType::f32, {1}, 0, 0}});
  }
  [[nodiscard]] const tensor::Manifest& manifest() const override { return manifest_; }
  [[nodiscard]] Bytes initial() const override { return to_bytes(std::vector<float>{-0.5F}); }
  [[nodiscard]] std::int64_t samples(int) const override { return 100; }
  Result<Learned> train(std::span<const std::byte> base, const Lesson& lesson) override {
    if (!lesson.training.empty()) return Error{Code::usage, "nothing is to be left out", ""};
    const Loss& loss = losses_.at(static_cast<std::size_t>(lesson.facility));
    const double correction = lesson.correction.empty() ? 0 : lesson.correction[0];
    const double begin = to_floats(base)[0];
    double w = begin;
    for (std::int64_t step = 0; step < lesson.steps; ++step) {
      const double gradient =
          loss.curvature == 0 ? loss.minimum : loss.curvature * (w - loss.minimum);
      w -= lesson.learning_rate * (gradient + correction);
    }
    return Learned{to_bytes(std::vector<float>{static_cast<float>(w - begin)}), 0, lesson.steps};
  }
  Result<Grade> evaluate(std::span<const std::byte> model) override {
    double pull = 0;
    double sum = 0;
    for (const Loss& loss : losses_) {
      pull += loss.curvature * loss.minimum;
      sum += loss.curvature;
    }
    const double distance = std::abs(to_floats(model)[0] - pull / sum);
    return Grade{std::max(0.0, 1 - distance), distance};
  }

 private:
  std::vector<Loss> losses_;
  tensor::Manifest manifest_;
};

// A file's data with this weight and this control variate.
Bytes both(const tensor::Manifest& layout, float weight, float control) {
  std::vector<float> values(2);
  values[layout.find("w")->begin / sizeof(float)] = weight;
  values[layout.find("fedqueue.control.w")->begin / sizeof(float)] = control;
  return to_bytes(values);
}

float weight_in(const tensor::Manifest& layout, const Bytes& data) {
  return to_floats(data)[layout.find("w")->begin / sizeof(float)];
}

float control_in(const tensor::Manifest& layout, const Bytes& data) {
  return to_floats(data)[layout.find("fedqueue.control.w")->begin / sizeof(float)];
}

// x = 1, slope 0.8, c = 0.5, c_k = 0.3, four steps of 0.05: y = 0.8, c_k' = 0.8; with N = 2 and one
// participant c = 0.75.
TEST(ControlledLearner, FollowsTheWorkedExample) {
  Parabolas slope({{0, 0.8}});
  auto learner = *ControlledLearner::create(slope, 1);
  const tensor::Manifest& layout = learner.manifest();
  learner.taken(0, both(layout, 77, 0.3F));
  Lesson lesson;
  lesson.steps = 4;
  lesson.learning_rate = 0.05;
  lesson.training = {{"control_variates", "1"}};
  const Bytes base = both(layout, 1, 0.5F);
  const auto learned = learner.train(base, lesson);
  ASSERT_TRUE(learned) << learned.error().message;
  EXPECT_NEAR(weight_in(layout, learned->update), -0.2, 1e-6);
  EXPECT_NEAR(control_in(layout, learned->update), 0.5, 1e-6);

  TensorAlgebra server(layout);
  ReduceStarted plan;
  plan.updates.push_back({UpdateId("u"), FacilityId("f"), 0, 0, 1});
  plan.control_weight = 0.5;
  const auto next =
      server.reduce(plan, base, {std::make_shared<const Bytes>(learned->update)}, {}, nullptr);
  ASSERT_TRUE(next);
  EXPECT_NEAR(weight_in(layout, next->model), 0.8, 1e-6);
  EXPECT_NEAR(control_in(layout, next->model), 0.75, 1e-6);

  // c_k is 0.8 once the server took it: the corrected slope is 0.8 − 0.8 + 0.75.
  learner.taken(0, learned->update);
  const auto second = learner.train(next->model, lesson);
  ASSERT_TRUE(second);
  EXPECT_NEAR(weight_in(layout, second->update), -4 * 0.05 * 0.75, 1e-6);
}

TEST(ControlledLearner, AModelIsJudgedAndBegunAsWithoutThem) {
  Parabolas inner({{1, 1}});
  auto learner = *ControlledLearner::create(inner, 1);
  EXPECT_EQ(learner.initial(), both(learner.manifest(), -0.5F, 0));
  EXPECT_EQ(learner.evaluate(both(learner.manifest(), 0.25F, 9))->loss,
            inner.evaluate(to_bytes(std::vector<float>{0.25F}))->loss);
}

Setting opposed() {
  Setting setting;
  setting.name = "opposed";
  setting.facilities = 2;
  setting.queue_mean_s = {1};
  setting.horizon_s = 240;
  setting.job_time_limit_s = 40;
  setting.step_s = {0.2};
  return setting;
}

Result<CellResult> run(const Setting& setting,
                       const std::vector<std::pair<std::string, std::string>>& options) {
  PolicyConfig config;
  for (const auto& [name, value] : options) EXPECT_TRUE(config.set(name, value)) << name;
  // The best mean is at 0.6; who goes far enough alone ends at 1 or at −1, and their mean at 0.
  Parabolas learner({{4, 1}, {1, -1}});
  return run_federation(setting, config, {Phase::tuned, setting.name, "p", 3, "-"}, learner, {},
                        {});
}

double final_accuracy(const std::vector<std::pair<std::string, std::string>>& options) {
  const auto result = run(opposed(), options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->final_accuracy : 0;
}

TEST(Scaffold, FindsTheMeanThatDriftingFacilitiesMiss) {
  std::vector<std::pair<std::string, std::string>> options = {
      {"policy", "fedavg"}, {"local_steps", "30"}, {"lr_base", "0.1"}, {"t_sync", "10"}};
  EXPECT_LT(final_accuracy(options), 0.6);
  options[0].second = "scaffold";
  EXPECT_GT(final_accuracy(options), 0.97);
}

TEST(Scaffold, ResidentJobsKeepTheirControlVariatesToo) {
  std::vector<std::pair<std::string, std::string>> options = {
      {"policy", "resident"}, {"local_steps", "20"}, {"lr_base", "0.1"}, {"outer", "none"}};
  const double without = final_accuracy(options);
  options.emplace_back("control_variates", "true");
  const double with = final_accuracy(options);
  EXPECT_GT(with, without);
  EXPECT_GT(with, 0.9);
}

TEST(Scaffold, ModelsAndUpdatesAreTwiceAsLarge) {
  std::vector<std::pair<std::string, std::string>> options = {
      {"policy", "fedavg"}, {"local_steps", "30"}, {"lr_base", "0.1"}, {"t_sync", "10"}};
  const auto without = run(opposed(), options);
  options[0].second = "scaffold";
  const auto with = run(opposed(), options);
  ASSERT_TRUE(with && without);
  // One weight of four bytes; an update or two may be on their way at the end.
  EXPECT_NEAR(static_cast<double>(without->bytes_up),
              4 * static_cast<double>(without->updates_counted), 8);
  EXPECT_NEAR(static_cast<double>(with->bytes_up), 8 * static_cast<double>(with->updates_counted),
              16);
}

TEST(Scaffold, ASettingWithMomentumRefusesIt) {
  Setting setting = opposed();
  setting.momentum = 0.9;
  const auto result = run(setting, {{"policy", "scaffold"}, {"local_steps", "30"}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::usage);
  EXPECT_NE(result.error().message.find("plain SGD"), std::string::npos);
  EXPECT_TRUE(run(setting, {{"policy", "fedavg"}, {"local_steps", "30"}}));
}

}  // namespace
}  // namespace fedqueue::simulation
