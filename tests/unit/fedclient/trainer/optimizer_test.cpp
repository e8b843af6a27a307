#include "fedclient/trainer/optimizer.h"

#include <gmock/gmock.h>

#include <cmath>

namespace fedqueue {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

// One weight matrix of two values, unless said otherwise.
class OptimizerTest : public testing::Test {
 protected:
  void step(std::vector<float> gradient, double rate) {
    optimizer_.step(settings_, rate, weights_.data(), gradient.data());
  }
  void expect(double first, double second, double error = 1e-6) const {
    EXPECT_THAT(weights_, ElementsAre(FloatNear(static_cast<float>(first), error),
                                      FloatNear(static_cast<float>(second), error)));
  }

  Optimizer optimizer_{{{2, true}}, {}};
  OptimizerSettings settings_;
  std::vector<float> weights_{3, 4};
};

// Three steps of g = 1 with m = 0.9: 1 + 1.9 + 2.71 = 5.61.
TEST_F(OptimizerTest, MomentumGathersGradients) {
  for (int i = 0; i < 3; ++i) step({1, 0}, 1);
  expect(3 - 5.61, 4);
  optimizer_.reset();
  step({1, 0}, 1);
  expect(3 - 6.61, 4);
}

// v = 1 and 1.9; the steps are 1 + 0.9·1 and 1 + 0.9·1.9.
TEST_F(OptimizerTest, NesterovLooksAhead) {
  settings_.nesterov = true;
  step({1, 0}, 0.5);
  expect(3 - 0.5 * 1.9, 4);
  step({1, 0}, 0.5);
  expect(3 - 0.5 * (1.9 + 2.71), 4);
}

TEST_F(OptimizerTest, TheRateMayChangeWithoutDisturbingMomentum) {
  step({1, 0}, 1);
  step({0, 0}, 0.1);
  expect(3 - 1 - 0.1 * 0.9, 4);
}

TEST_F(OptimizerTest, SgdDecays) {
  settings_.momentum = 0;
  settings_.weight_decay = 0.1;
  step({0, 0}, 0.5);
  expect(3 - 0.5 * 0.1 * 3, 4 - 0.5 * 0.1 * 4);
}

// First step: r = g/|g| but for ε, so that w moves by the rate; the decay goes beside it.
TEST_F(OptimizerTest, AdamWMovesByTheRateAndDecaysBesideIt) {
  settings_.kind = LocalOptimizer::adamw;
  step({0.6f, -0.8f}, 0.1);
  expect(3 * (1 - 0.1 * 0.01) - 0.1, 4 * (1 - 0.1 * 0.01) + 0.1);
  // m = 0.9·0.06, m̂ = 0.054/0.19; v = 0.999·0.00036, v̂ = 0.00035964/0.001999.
  const double first = 2.897;
  step({0, -0.8f}, 0.1);
  const double mean = 0.054 / 0.19;
  const double root = std::sqrt(0.00035964 / 0.001999);
  EXPECT_NEAR(weights_[0], first * 0.999 - 0.1 * mean / root, 1e-6);
}

// |w| = 2, |g| = 0.5, λ = 5e-4: local rate 0.003992015968.
TEST_F(OptimizerTest, LarsScalesEachLayer) {
  settings_.kind = LocalOptimizer::lars;
  weights_ = {1.2f, 1.6f};
  step({0.3f, -0.4f}, 10);
  const double local = 10 * 0.003992015968;
  expect(1.2 - local * (0.3 + 5e-4 * 1.2), 1.6 - local * (-0.4 + 5e-4 * 1.6), 3e-7);
}

TEST_F(OptimizerTest, LarsDoesNotScaleWhatHasNoLength) {
  settings_.kind = LocalOptimizer::lars;
  weights_ = {0, 0};
  step({0.3f, -0.4f}, 0.1);
  expect(-0.03, 0.04);
}

TEST_F(OptimizerTest, LambFollowsTheWorkedExample) {
  settings_.kind = LocalOptimizer::lamb;
  step({0.6f, -0.8f}, 0.1);
  expect(2.634236329259016, 4.340906053284598);
}

TEST_F(OptimizerTest, LansFollowsTheWorkedExample) {
  settings_.kind = LocalOptimizer::lans;
  step({0.6f, -0.8f}, 0.1);
  expect(2.634236329, 4.340906053);
  step({0, 2}, 0.1);
  expect(2.1948761372379795, 4.160432641172146);
}

TEST_F(OptimizerTest, LansStandsWhereThereIsNeitherWeightNorGradient) {
  settings_.kind = LocalOptimizer::lans;
  weights_ = {0, 0};
  step({0, 0}, 0.1);
  expect(0, 0);
}

TEST_F(OptimizerTest, LongGradientsAreClipped) {
  settings_.momentum = 0;
  settings_.clip_norm = 1;
  step({3, 4}, 1);
  expect(3 - 0.6, 4 - 0.8);
  step({0.3f, 0.4f}, 1);
  expect(3 - 0.9, 4 - 1.2);
}

// The second layer is a bias: the first one alone decays and is scaled.
TEST_F(OptimizerTest, BiasesNeitherDecayNorAreScaled) {
  for (const LocalOptimizer kind :
       {LocalOptimizer::sgd, LocalOptimizer::adamw, LocalOptimizer::lars, LocalOptimizer::lamb}) {
    settings_ = {};
    settings_.kind = kind;
    settings_.weight_decay = 0.5;
    optimizer_ = Optimizer({{1, true}, {1, false}}, {});
    weights_ = {2, 2};
    step({0.5f, 0.5f}, 0.1);
    const bool adam = kind == LocalOptimizer::adamw || kind == LocalOptimizer::lamb;
    EXPECT_NEAR(weights_[1], 2 - 0.1 * (adam ? 1 : 0.5), 1e-6) << to_text(kind);
    EXPECT_GT(std::abs(weights_[0] - weights_[1]), 1e-3) << to_text(kind);
  }
}

TEST_F(OptimizerTest, AnotherOptimiserBeginsAnew) {
  settings_.kind = LocalOptimizer::lamb;
  step({0.6f, -0.8f}, 0.1);
  settings_.kind = LocalOptimizer::sgd;
  weights_ = {3, 4};
  step({1, 0}, 1);
  expect(2, 4);
}

}  // namespace
}  // namespace fedqueue
