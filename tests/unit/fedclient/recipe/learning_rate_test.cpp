#include "fedclient/recipe/learning_rate.h"

#include <gtest/gtest.h>

namespace fedqueue {
namespace {

LearningRateSettings decaying(LrSchedule schedule, std::int64_t steps) {
  LearningRateSettings settings;
  settings.schedule = schedule;
  settings.steps = steps;
  return settings;
}

// Goyal et al.: 0.1 for a batch of 256; a batch of 8192 has 32 times that, reached in five epochs.
TEST(LearningRate, LinearScalingWarmsUpFromTheUnscaledRate) {
  LearningRateSettings settings;
  settings.reference_batch = 256;
  settings.warm_up_steps = 5;  // epochs of one step
  LearningRateState state;
  change_batch(state, settings, 8192);
  for (const double expected : {0.1, 0.72, 1.34, 1.96, 2.58, 3.2, 3.2}) {
    EXPECT_NEAR(0.1 * multiplier(state, settings), expected, 1e-12);
    advance(state);
  }
}

TEST(LearningRate, WithoutScalingWarmsUpFromATenthOrWhatIsSaid) {
  LearningRateSettings settings;
  settings.warm_up_steps = 10;
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 0, 64), 0.1);
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 5, 64), 0.55);
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 10, 64), 1);
  settings.warm_up_start = 0;
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 5, 64), 0.5);
}

// Dynamic SGD: 0.1 to 0.4 in eight steps.
TEST(LearningRate, FollowsAChangeOfTheBatchSmoothly) {
  LearningRateSettings settings;
  settings.reference_batch = 64;
  LearningRateState state;
  change_batch(state, settings, 64);
  EXPECT_DOUBLE_EQ(multiplier(state, settings), 1) << "the first batch is no change";
  change_batch(state, settings, 256);
  for (const double expected :
       {0.1, 0.1375, 0.175, 0.2125, 0.25, 0.2875, 0.325, 0.3625, 0.4, 0.4}) {
    EXPECT_NEAR(0.1 * multiplier(state, settings), expected, 1e-12);
    advance(state);
  }
  change_batch(state, settings, 256);
  EXPECT_DOUBLE_EQ(multiplier(state, settings), 4) << "the same batch is no change";
}

TEST(LearningRate, AChangeWithinARampBeginsWhereTheRampIs) {
  LearningRateSettings settings;
  settings.reference_batch = 64;
  LearningRateState state;
  change_batch(state, settings, 64);
  change_batch(state, settings, 256);
  for (int i = 0; i < 4; ++i) advance(state);
  change_batch(state, settings, 64);
  EXPECT_DOUBLE_EQ(multiplier(state, settings), 2.5);
  for (int i = 0; i < 8; ++i) advance(state);
  EXPECT_DOUBLE_EQ(multiplier(state, settings), 1);
}

TEST(LearningRate, CosineFallsFromOneToItsEnd) {
  LearningRateSettings settings = decaying(LrSchedule::cosine, 100);
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 0, 1), 1);
  EXPECT_NEAR(schedule_factor(settings, 25, 1), 0.8535533905932737, 1e-15);
  EXPECT_NEAR(schedule_factor(settings, 50, 1), 0.5, 1e-15);
  EXPECT_NEAR(schedule_factor(settings, 100, 1), 0, 1e-15);
  EXPECT_NEAR(schedule_factor(settings, 1000, 1), 0, 1e-15) << "the end is kept";
  settings.end = 0.2;
  EXPECT_NEAR(schedule_factor(settings, 100, 1), 0.2, 1e-15);
  EXPECT_NEAR(schedule_factor(settings, 50, 1), 0.6, 1e-15);
}

TEST(LearningRate, PolynomialWithPlateauIsTheScheduleOfLans) {
  LearningRateSettings settings = decaying(LrSchedule::polynomial, 100);
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 50, 1), 0.25) << "power 2, as LARS has it";
  settings.power = 1;
  settings.warm_up_steps = 20;
  settings.warm_up_start = 0;
  settings.hold_steps = 30;
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 10, 1), 0.5);
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 35, 1), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 50, 1), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 75, 1), 0.5);
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 100, 1), 0);
}

TEST(LearningRate, StepFallsAtItsSteps) {
  LearningRateSettings settings = decaying(LrSchedule::step, 0);
  settings.step_every = 30;
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 29, 1), 1);
  EXPECT_DOUBLE_EQ(schedule_factor(settings, 30, 1), 0.1);
  EXPECT_NEAR(schedule_factor(settings, 60, 1), 0.01, 1e-17);
}

// Smith et al.: the noise, proportional to rate·N/(batch·(1 − m)), falls alike whether the rate is
// divided by five or the batch multiplied. 0.1, 50,000 samples, batch 128, m 0.9: 390.625, 78.125.
TEST(LearningRate, TheBatchGrowsWhereTheRateWouldFall) {
  const auto noise = [](double rate, double batch) { return rate * 50000 / (batch * (1 - 0.9)); };
  LearningRateSettings falling = decaying(LrSchedule::step, 0);
  falling.step_every = 50;
  falling.step_factor = 0.2;
  LearningRateSettings growing = falling;
  growing.batch_growth = 5;
  growing.batch_max = 5000;
  LearningRateState state;
  change_batch(state, growing, 128);
  struct Phase {
    int steps;
    std::int64_t multiple;
    double noise;
  };
  // As many samples in each phase, and so ever fewer steps, until the batch has its limit.
  for (const Phase& phase :
       {Phase{50, 1, 390.625}, Phase{10, 5, 78.125}, Phase{2, 25, 15.625}, Phase{2, 25, 3.125}}) {
    for (int step = 0; step < phase.steps; ++step) {
      const std::int64_t multiple = batch_multiple(state, growing);
      EXPECT_EQ(multiple, phase.multiple);
      EXPECT_NEAR(noise(0.1 * multiplier(state, falling), 128), phase.noise, 1e-9);
      EXPECT_NEAR(noise(0.1 * multiplier(state, growing), static_cast<double>(128 * multiple)),
                  phase.noise, 1e-9);
      advance(state, static_cast<double>(multiple));
    }
  }
}

TEST(LearningRate, ABatchThatCannotGrowLetsTheRateFall) {
  LearningRateSettings settings = decaying(LrSchedule::step, 0);
  settings.step_every = 10;
  settings.batch_growth = 10;
  settings.batch_max = 600;
  LearningRateState state;
  change_batch(state, settings, 64);
  state.steps_done = 10;
  EXPECT_EQ(batch_multiple(state, settings), 1);
  EXPECT_DOUBLE_EQ(multiplier(state, settings), 0.1);
  settings.schedule = LrSchedule::cosine;
  settings.steps = 100;
  EXPECT_FALSE(check(settings)) << "growth is for step";
}

// AdaScale: a step that is worth several moves the schedule on by as many.
TEST(LearningRate, AStepMayCountAsSeveral) {
  const LearningRateSettings settings = decaying(LrSchedule::cosine, 100);
  LearningRateState state;
  change_batch(state, settings, 64);
  advance(state, 50);
  EXPECT_NEAR(multiplier(state, settings), 0.5, 1e-15);
}

TEST(LearningRate, SchedulesThatLeaveNothingToFallInAreRefused) {
  EXPECT_TRUE(check({}));
  EXPECT_FALSE(check(decaying(LrSchedule::cosine, 0)));
  EXPECT_FALSE(check(decaying(LrSchedule::step, 100))) << "no step_every";
  LearningRateSettings settings = decaying(LrSchedule::polynomial, 50);
  EXPECT_TRUE(check(settings));
  settings.warm_up_steps = 50;
  const Status status = check(settings);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::usage);
  EXPECT_NE(status.error().message.find("of which 50 are warm-up"), std::string::npos);
}

}  // namespace
}  // namespace fedqueue
