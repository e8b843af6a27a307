// What users rely on of the server optimisers: the numbers of the papers' formulas, step by step.
#include "aggregation/optimizer/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace fedqueue {
namespace {

constexpr double near = 1e-9;

// A model with its state, moved by one delta after the other.
template <typename Real>
class Steps {
 public:
  Steps(ServerStep step, std::vector<Real> weights) : step_(step), weights_(std::move(weights)) {
    std::vector<Real>* const vectors[] = {&first_, &second_};
    std::size_t next = 0;
    for (const StateVector& vector : state_vectors(step.optimizer)) {
      std::vector<Real>& state = *vectors[next++];
      state.assign(weights_.size(), 0);
      if (vector.begin == StateBegin::model) state = weights_;
      if (vector.begin == StateBegin::tau_squared) {
        state.assign(weights_.size(), static_cast<Real>(step.tau * step.tau));
      }
    }
  }

  void push(std::vector<Real> delta) {
    PreparedStep prepared{step_, momentum_due(step_, pushes_++), {}};
    if (step_.optimizer == ServerOptimizer::heloco) {
      prepared.correction = heloco_correction(
          heloco_sums(std::span<const Real>(delta), std::span<const Real>(first_)));
    }
    apply_step(prepared, StepRange<Real>{weights_, delta, first_, second_});
  }

  Real weight(std::size_t i = 0) const { return weights_[i]; }
  Real first(std::size_t i = 0) const { return first_[i]; }
  Real second(std::size_t i = 0) const { return second_[i]; }
  void set_first(std::vector<Real> values) { first_ = std::move(values); }

 private:
  ServerStep step_;
  std::vector<Real> weights_;
  std::vector<Real> first_;
  std::vector<Real> second_;
  std::int64_t pushes_ = 0;
};

ServerStep adaptive(ServerOptimizer optimizer) {
  return {
      .optimizer = optimizer, .learning_rate = 0.1, .momentum = 0.9, .beta2 = 0.99, .tau = 1e-3};
}

TEST(ServerOptimizers, WithoutAnyTheWeightedSumIsScaledAlone) {
  Steps<double> run({.learning_rate = 0.5}, {1});
  run.push({0.2});
  EXPECT_NEAR(run.weight(), 1.1, near);
}

TEST(ServerOptimizers, MomentumFollowsTheWorkedExample) {
  Steps<double> run({.optimizer = ServerOptimizer::momentum, .momentum = 0.9}, {1});
  run.push({0.2});
  EXPECT_NEAR(run.weight(), 1.2, near);
  run.push({-0.1});
  EXPECT_NEAR(run.weight(), 1.28, near);
  EXPECT_NEAR(run.first(), 0.08, near);
}

TEST(ServerOptimizers, AdamFollowsTheWorkedExample) {
  Steps<double> run(adaptive(ServerOptimizer::adam), {1});
  run.push({0.2});
  EXPECT_NEAR(run.weight(), 1.0951260516755887, near);
  run.push({-0.1});
  EXPECT_NEAR(run.weight(), 1.1294710594477033, near);
  EXPECT_NEAR(run.second(), 0.0004969801, near);
}

TEST(ServerOptimizers, YogiFollowsTheWorkedExample) {
  Steps<double> run(adaptive(ServerOptimizer::yogi), {1});
  run.push({0.2});
  EXPECT_NEAR(run.weight(), 1.0951249219725039, near);
  run.push({-0.1});
  EXPECT_NEAR(run.weight(), 1.129337768829463, near);
  EXPECT_NEAR(run.second(), 0.000501, near);
}

TEST(ServerOptimizers, YogiKeepsASecondMomentThatEqualsTheSquare) {
  ServerStep step = adaptive(ServerOptimizer::yogi);
  step.tau = 0.5;
  Steps<double> run(step, {1});
  run.push({0.5});
  EXPECT_EQ(run.second(), 0.25);
}

TEST(ServerOptimizers, AdagradFollowsTheWorkedExample) {
  Steps<double> run(adaptive(ServerOptimizer::adagrad), {1});
  run.push({0.2});
  EXPECT_NEAR(run.weight(), 1.0099501249992187, near);
  run.push({-0.1});
  EXPECT_NEAR(run.weight(), 1.013511869540127, near);
  EXPECT_NEAR(run.second(), 0.050001, near);
}

// Gradients 0.2 and 0.1 are deltas of the other sign.
TEST(ServerOptimizers, NesterovFollowsTheWorkedExample) {
  Steps<double> run({.optimizer = ServerOptimizer::nesterov, .learning_rate = 0.7, .momentum = 0.9},
                    {1});
  run.push({-0.2});
  EXPECT_NEAR(-run.first(), 0.2, near);
  EXPECT_NEAR(run.weight(), 0.734, near);
  run.push({-0.1});
  EXPECT_NEAR(-run.first(), 0.28, near);
  EXPECT_NEAR(run.weight(), 0.4876, near);
}

// N = 2; the weights of the sum bring the 1/N.
TEST(ServerOptimizers, DelayedNesterovFollowsTheWorkedExample) {
  const ServerStep step{.optimizer = ServerOptimizer::delayed_nesterov,
                        .learning_rate = 0.7,
                        .momentum = 0.9,
                        .delay = 2};
  Steps<double> run(step, {1});
  run.push({-0.2 / 2});
  EXPECT_NEAR(run.weight(), 0.93, near);
  EXPECT_EQ(run.first(), 0) << "the momentum waits for the second push";
  run.push({-0.1 / 2});
  EXPECT_NEAR(-run.first(), 0.15, near);
  EXPECT_NEAR(run.weight(), 0.8005, near);
  EXPECT_EQ(run.second(), 0) << "the sum of the pushes begins anew";
}

TEST(ServerOptimizers, DelayedNesterovOfOnePushIsNesterov) {
  const ServerStep plain{
      .optimizer = ServerOptimizer::nesterov, .learning_rate = 0.7, .momentum = 0.9};
  ServerStep delayed = plain;
  delayed.optimizer = ServerOptimizer::delayed_nesterov;
  delayed.delay = 1;
  Steps<double> one(plain, {1});
  Steps<double> other(delayed, {1});
  for (const double delta : {-0.2, -0.1, 0.3}) {
    one.push({delta});
    other.push({delta});
    EXPECT_NEAR(one.weight(), other.weight(), near);
  }
}

// What becomes of a gradient (x, y) beside the momentum (1, 0); both change sign together.
std::pair<double, double> corrected(double x, double y) {
  const std::vector<double> delta = {-x, -y};
  const std::vector<double> momentum = {-1, 0};
  const HelocoCorrection correction = heloco_correction(
      heloco_sums(std::span<const double>(delta), std::span<const double>(momentum)));
  return {correction.own * x + correction.pull * 1, correction.own * y};
}

TEST(ServerOptimizers, HelocoBendsTheUpdateTowardsTheMomentum) {
  EXPECT_EQ(corrected(1, 0), std::make_pair(1.0, 0.0)) << "aligned: kept";
  const auto opposed = corrected(-1, 0);
  EXPECT_NEAR(opposed.first, -0.875, near);
  EXPECT_NEAR(opposed.second, 0, near);
  const auto across = corrected(0, 1);
  // ε = 1e-8 in the confidence moves the ninth digit.
  EXPECT_NEAR(across.first, 0.316227766, 5e-9);
  EXPECT_NEAR(across.second, 0.948683298, 5e-9);
}

TEST(ServerOptimizers, HelocoLeavesWhatHasNoDirectionAlone) {
  const HelocoCorrection nothing = heloco_correction({0, 0, 1});
  EXPECT_EQ(nothing.own, 1);
  EXPECT_EQ(nothing.pull, 0);
  const HelocoCorrection first_step = heloco_correction({0, 1, 0});
  EXPECT_EQ(first_step.own, 1);
  EXPECT_EQ(first_step.pull, 0);
}

// Raw model 1 and momentum 0.1 (of gradients): 1 − 0.7·0.9·0.1.
TEST(ServerOptimizers, HelocoHandsOutTheLookAhead) {
  const ServerStep step{
      .optimizer = ServerOptimizer::heloco, .learning_rate = 0.7, .momentum = 0.9};
  Steps<double> run(step, {1});
  run.set_first({-0.1 / 0.9});
  run.push({0});
  EXPECT_NEAR(-run.first(), 0.1, near);
  EXPECT_NEAR(run.weight() - run.second(), 0.937 - 1, near);
}

TEST(ServerOptimizers, HelocoStepsAsNesterovOnAMeanOfGradients) {
  const ServerStep step{
      .optimizer = ServerOptimizer::heloco, .learning_rate = 0.7, .momentum = 0.9};
  Steps<double> run(step, {1});
  run.push({-0.2});  // m = 0.1·0.2, G = 0.2
  EXPECT_NEAR(-run.first(), 0.02, near);
  EXPECT_NEAR(run.second(), 1 - 0.7 * (0.2 + 0.9 * 0.02), near);
  EXPECT_NEAR(run.weight(), run.second() - 0.7 * 0.9 * 0.02, near);
}

TEST(ServerOptimizers, SinglePrecisionStaysCloseToDouble) {
  for (const std::string_view name : server_optimizer_names()) {
    ServerStep step = adaptive(*parse_server_optimizer(name));
    step.delay = 2;
    Steps<float> narrow(step, {1, -2, 3});
    Steps<double> wide(step, {1, -2, 3});
    for (int push = 0; push < 5; ++push) {
      const double delta = 0.1 * std::cos(push);
      narrow.push({static_cast<float>(delta), static_cast<float>(-delta), 0.01f});
      wide.push({delta, -delta, 0.01});
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(narrow.weight(i), wide.weight(i), 1e-5) << name;
  }
}

}  // namespace
}  // namespace fedqueue
