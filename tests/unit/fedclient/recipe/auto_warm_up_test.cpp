#include "fedclient/recipe/auto_warm_up.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/prng.h"
#include "fedclient/recipe/learning_rate.h"

namespace fedqueue {
namespace {

// Falls to `lowest` at x = place and rises again, with noise.
std::vector<double> valley(std::size_t count, double place, double rise, std::uint64_t seed) {
  Prng noise(seed);
  std::vector<double> losses;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(i) / static_cast<double>(count - 1);
    const double apart = x - place;
    losses.push_back(0.7 + (apart < 0 ? 1.6 : rise) * apart * apart + 0.04 * noise.normal());
  }
  return losses;
}

TEST(LossMinimum, ComparesTwoPlacesByTheirPosteriors) {
  EXPECT_NEAR(probability_below(0.8, 0.9, 0.0016, 0.0016, 0), 0.9591386239, 1e-9);
  EXPECT_NEAR(probability_below(0.9, 0.8, 0.0016, 0.0016, 0), 1 - 0.9591386239, 1e-9);
  EXPECT_NEAR(probability_below(0.8, 0.8, 0.0016, 0.0016, 0), 0.5, 1e-12);
  EXPECT_GT(probability_below(0.8, 0.9, 0.0016, 0.0016, 0.0012), 0.9591386239)
      << "places that move together differ less by chance";
}

TEST(LossMinimum, BothTestsSeeAMinimumThatWasPassed) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const std::vector<double> losses = valley(300, 0.7, 6, seed);
    GaussianProcess process;
    const LossMinimum found = gaussian_process_minimum(losses, process, seed);
    EXPECT_TRUE(found.passed);
    for (const double place : found.places) EXPECT_NEAR(place, 0.7, 0.08);
    const LossMinimum by_kernel = kernel_minimum(losses);
    EXPECT_TRUE(by_kernel.passed);
    EXPECT_NEAR(by_kernel.places[0], 0.7, 0.08);
  }
}

TEST(LossMinimum, NeitherTestSeesOneWhileLossesFallOrStayFlat) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const std::vector<double> falling = valley(300, 1, 0, seed);
    GaussianProcess process;
    EXPECT_FALSE(gaussian_process_minimum(falling, process, seed).passed);
    EXPECT_FALSE(kernel_minimum(falling).passed);
  }
}

TEST(LossMinimum, FollowsFromLossesStateAndSeed) {
  const std::vector<double> losses = valley(400, 0.6, 3, 5);
  GaussianProcess a;
  GaussianProcess b;
  EXPECT_EQ(gaussian_process_minimum(losses, a, 9).places,
            gaussian_process_minimum(losses, b, 9).places);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.adam_steps, 100);
  (void)gaussian_process_minimum(losses, a, 10);
  EXPECT_EQ(a.adam_steps, 200) << "goes on with the parameters it has";
}

TEST(AutoWarmUp, RisesByAConstantFactor) {
  const AutoWarmUpSettings settings{.start = 1e-5, .steps = 1000};
  const AutoWarmUp state;
  EXPECT_DOUBLE_EQ(factor(state, settings, 0), 1e-5);
  EXPECT_NEAR(factor(state, settings, 1) / factor(state, settings, 0), 1.0115794543, 1e-9);
  EXPECT_NEAR(factor(state, settings, 500), std::sqrt(1e-5), 1e-12);
  EXPECT_DOUBLE_EQ(factor(state, settings, 1000), 1);
}

// lr 0.1 was reached and the minimum lay at x = 0.8: 1e-5·(0.1/1e-5)^0.8.
TEST(AutoWarmUp, GoesBackToWhereTheMinimumWas) {
  EXPECT_NEAR(1e-5 * std::pow(0.1 / 1e-5, 0.8), 0.0158489319, 1e-10);
  for (const LossTest test : {LossTest::gaussian_process, LossTest::kernel}) {
    const AutoWarmUpSettings settings{.start = 1e-5, .steps = 1000, .test = test};
    AutoWarmUp state;
    Prng noise(3);
    // The loss falls with the logarithm of the rate, is lowest at 1e-2, and then blows up.
    std::int64_t steps = 0;
    while (!state.ended) {
      const double rate = factor(state, settings, static_cast<double>(steps));
      const double apart = std::log10(rate) + 2;
      const double loss = 0.7 + (apart < 0 ? 0.2 : 1.5) * apart * apart + 0.05 * noise.normal();
      observe(state, settings, loss, static_cast<double>(++steps), 30, 1);
    }
    EXPECT_LT(steps, 1000) << to_text(test);
    EXPECT_GT(steps, 600) << to_text(test) << ": 1e-2 is reached after 600 steps";
    EXPECT_NEAR(std::log10(state.factor), -2, 0.3) << to_text(test);
    EXPECT_EQ(factor(state, settings, 1e6), state.factor) << "and stays";
  }
}

TEST(AutoWarmUp, WithoutAMinimumEndsWithItsStepsWhereItIs) {
  const AutoWarmUpSettings settings{.start = 1e-5, .steps = 400};
  AutoWarmUp state;
  for (std::int64_t step = 1; step <= 400; ++step) {
    EXPECT_FALSE(state.ended);
    observe(state, settings, 2.0 - 0.004 * static_cast<double>(step), static_cast<double>(step), 20,
            1);
  }
  EXPECT_TRUE(state.ended);
  EXPECT_EQ(state.ended_at, 400);
  EXPECT_DOUBLE_EQ(state.factor, 1);
}

TEST(AutoWarmUp, KeepsABoundedNumberOfLossesAndLeavesOutWhatIsNotFinite) {
  const AutoWarmUpSettings settings{.start = 1e-5, .steps = 100000, .test = LossTest::kernel};
  AutoWarmUp state;
  double sum = 0;
  const auto most = static_cast<std::int64_t>(AutoWarmUp::kMostLosses);
  for (std::int64_t step = 1; step <= 4 * most; ++step) {
    const double loss = 10 - 0.001 * static_cast<double>(step);
    sum += loss;
    observe(state, settings, loss, static_cast<double>(step), 1000, 1);
    observe(state, settings, std::numeric_limits<double>::quiet_NaN(), static_cast<double>(step),
            1000, 1);
    ASSERT_LE(state.count, most);
  }
  double kept = state.gathered;
  for (std::int64_t i = 0; i < state.count; ++i)
    kept += state.losses[static_cast<std::size_t>(i)] * static_cast<double>(state.steps_each);
  EXPECT_NEAR(kept, sum, 1e-6) << "every loss counts, none twice";
  EXPECT_EQ(state.steps_each, 4);
}

TEST(AutoWarmUp, BecomesNumbersAndBack) {
  const AutoWarmUpSettings settings{.start = 1e-5, .steps = 500};
  AutoWarmUp state;
  for (std::int64_t step = 1; step <= 60; ++step)
    observe(state, settings, 2 - 0.01 * static_cast<double>(step % 7), static_cast<double>(step),
            30, 1);
  EXPECT_GT(state.tests, 0);
  std::vector<double> numbers = to_numbers(state);
  EXPECT_EQ(auto_warm_up_of(numbers), state);
  numbers.pop_back();
  EXPECT_FALSE(auto_warm_up_of(numbers)) << "a loss is missing";
  numbers = to_numbers(state);
  numbers[6] = -1;
  EXPECT_FALSE(auto_warm_up_of(numbers)) << "no count";
  numbers[6] = 1e300;
  EXPECT_FALSE(auto_warm_up_of(numbers)) << "no count";
  EXPECT_FALSE(auto_warm_up_of({}));
}

// The schedule falls from the place and the height that the warm-up found.
TEST(AutoWarmUp, IsFollowedByTheSchedule) {
  LearningRateSettings settings;
  settings.schedule = LrSchedule::cosine;
  settings.steps = 1000;
  settings.auto_warm_up = true;
  ASSERT_TRUE(check(settings));
  LearningRateState state;
  change_batch(state, settings, 64);
  EXPECT_DOUBLE_EQ(multiplier(state, settings), 1e-5);
  state.steps_done = 500;
  EXPECT_DOUBLE_EQ(multiplier(state, settings), 1) << "half of the steps are the longest warm-up";
  state.warm_up.ended = true;
  state.warm_up.ended_at = 200;
  state.warm_up.factor = 0.02;
  state.steps_done = 200;
  EXPECT_DOUBLE_EQ(multiplier(state, settings), 0.02);
  state.steps_done = 600;
  EXPECT_DOUBLE_EQ(multiplier(state, settings), 0.01);
  state.steps_done = 1000;
  EXPECT_NEAR(multiplier(state, settings), 0, 1e-15);
}

TEST(AutoWarmUp, SettingsThatCannotRiseAreRefused) {
  LearningRateSettings settings;
  settings.auto_warm_up = true;
  EXPECT_FALSE(check(settings)) << "no steps at all";
  settings.warm_up_steps = 100;
  EXPECT_TRUE(check(settings));
  settings.warm_up_start = 0;
  EXPECT_FALSE(check(settings));
}

}  // namespace
}  // namespace fedqueue
