#include "simulation/statistics/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace fedqueue::simulation {
namespace {

std::vector<CurvePoint> curve(const std::vector<double>& accuracies) {
  std::vector<CurvePoint> points;
  for (std::size_t i = 0; i < accuracies.size(); ++i)
    points.push_back({10.0 * static_cast<double>(i), accuracies[i], 0});
  return points;
}

TEST(TimeToTarget, IsTheFirstOfThreeEvaluationsInARow) {
  EXPECT_EQ(time_to_target_s(curve({0.1, 0.8, 0.7, 0.8, 0.9, 0.8, 0.1}), 0.8), 30);
}

TEST(TimeToTarget, OneLuckyEvaluationDoesNotCount) {
  EXPECT_EQ(time_to_target_s(curve({0.1, 0.9, 0.7, 0.9, 0.9, 0.7}), 0.8), std::nullopt);
  EXPECT_EQ(time_to_target_s(curve({0.1, 0.9, 0.7, 0.9, 0.9, 0.7}), 0.8, 2), 30);
}

TEST(TimeToTarget, TwoAtTheEndAreNotSustained) {
  EXPECT_EQ(time_to_target_s(curve({0.1, 0.9, 0.9}), 0.8), std::nullopt);
  EXPECT_EQ(time_to_target_s({}, 0.8), std::nullopt);
}

TEST(GeometricMean, OfRatios) {
  EXPECT_NEAR(geometric_mean(std::vector<double>{0.5, 2}), 1, 1e-12);
  EXPECT_NEAR(geometric_mean(std::vector<double>{0.25, 0.5, 1}), 0.5, 1e-12);
}

TEST(BootstrapRatio, EverySettingHasTheSameWeight) {
  // ln means: setting 0: ln 0.25, setting 1 (three seeds): ln 1 = 0. Together sqrt(0.25) = 0.5.
  const std::vector<PairedRatio> pairs = {{0, 0.25}, {1, 0.5}, {1, 1}, {1, 2}};
  const Interval interval = bootstrap_ratio(pairs);
  EXPECT_NEAR(interval.estimate, 0.5, 1e-12);
  EXPECT_EQ(interval.pairs, 4u);
  EXPECT_EQ(interval.clusters, 2u);
  EXPECT_LT(interval.low, 0.5);
  EXPECT_GT(interval.high, 0.5);
  EXPECT_NEAR(interval.low, 0.25, 1e-9) << "the first setting drawn twice";
}

TEST(BootstrapRatio, EqualRatiosLeaveNoDoubt) {
  const Interval interval = bootstrap_ratio(std::vector<PairedRatio>{{0, 0.4}, {1, 0.4}, {2, 0.4}});
  EXPECT_NEAR(interval.low, 0.4, 1e-12);
  EXPECT_NEAR(interval.high, 0.4, 1e-12);
}

TEST(BootstrapRatio, SettingsThatDifferWidenTheInterval) {
  std::vector<PairedRatio> alike;
  std::vector<PairedRatio> apart;
  for (std::size_t setting = 0; setting < 4; ++setting) {
    for (int seed = 0; seed < 10; ++seed) {
      const double noise = seed % 2 == 0 ? 1.1 : 1 / 1.1;
      alike.push_back({setting, 0.5 * noise});
      apart.push_back({setting, (setting % 2 == 0 ? 0.25 : 1) * noise});
    }
  }
  const Interval narrow = bootstrap_ratio(alike);
  const Interval wide = bootstrap_ratio(apart);
  EXPECT_NEAR(narrow.estimate, wide.estimate, 1e-9);
  EXPECT_GT(wide.high / wide.low, 2 * narrow.high / narrow.low);
}

TEST(BootstrapRatio, CoversTheTruthAboutAsOftenAsItSays) {
  // 30 settings × 3 seeds around a true ratio of 0.5, 200 times.
  int covered = 0;
  BootstrapOptions options;
  options.resamples = 400;
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    std::vector<PairedRatio> pairs;
    std::uint64_t state = trial * 7919 + 1;
    const auto noise = [&] {  // roughly normal: a sum of uniforms
      double sum = 0;
      for (int i = 0; i < 12; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        sum += static_cast<double>(state >> 11) * 0x1.0p-53;
      }
      return sum - 6;
    };
    for (std::size_t setting = 0; setting < 30; ++setting) {
      const double shared = 0.3 * noise();
      for (int seed = 0; seed < 3; ++seed)
        pairs.push_back({setting, 0.5 * std::exp(shared + 0.1 * noise())});
    }
    const Interval interval = bootstrap_ratio(pairs, options);
    covered += interval.low <= 0.5 && 0.5 <= interval.high;
  }
  EXPECT_GE(covered, 180);
}

TEST(SignFlipPValue, CountsTheSignsThatAreAsFar) {
  // Logarithms ln 0.5 three times: of eight signs only all and none are as far.
  EXPECT_NEAR(sign_flip_p_value(std::vector<PairedRatio>{{0, 0.5}, {0, 0.5}, {0, 0.5}}), 0.25,
              1e-12);
  // ln 2 and ln 0.5 cancel: every sign is as far as that.
  EXPECT_NEAR(sign_flip_p_value(std::vector<PairedRatio>{{0, 0.5}, {0, 2}}), 1, 1e-12);
}

TEST(SignFlipPValue, IsSmallForManyPairsThatAgreeAndLargeForNone) {
  std::vector<PairedRatio> clear;
  std::vector<PairedRatio> none;
  for (std::size_t i = 0; i < 30; ++i) {
    clear.push_back({i % 3, 0.5});
    none.push_back({i % 3, i % 2 == 0 ? 0.8 : 1 / 0.8});
  }
  EXPECT_LT(sign_flip_p_value(clear), 0.001);
  EXPECT_GT(sign_flip_p_value(none), 0.5);
}

TEST(Holm, StepsDownAndNeverFalls) {
  // Sorted 0.01 0.02 0.03 0.04 → ×4 0.04, ×3 0.06, ×2 0.06, ×1 0.04 raised to 0.06.
  const std::vector<double> corrected = holm(std::vector<double>{0.04, 0.01, 0.03, 0.02});
  EXPECT_NEAR(corrected[0], 0.06, 1e-12);
  EXPECT_NEAR(corrected[1], 0.04, 1e-12);
  EXPECT_NEAR(corrected[2], 0.06, 1e-12);
  EXPECT_NEAR(corrected[3], 0.06, 1e-12);
  EXPECT_NEAR(holm(std::vector<double>{0.6, 0.7})[1], 1, 1e-12);
}

TEST(Quantile, Interpolates) {
  const std::vector<double> sorted = {1, 2, 4};
  EXPECT_EQ(quantile_of_sorted(sorted, 0), 1);
  EXPECT_EQ(quantile_of_sorted(sorted, 0.5), 2);
  EXPECT_EQ(quantile_of_sorted(sorted, 0.75), 3);
  EXPECT_EQ(quantile_of_sorted(sorted, 1), 4);
}

TEST(Band, HoldsTheMeanAndEndsWithTheShortestCurve) {
  const std::vector<std::vector<CurvePoint>> curves = {curve({0.1, 0.5, 0.9}), curve({0.3, 0.7})};
  const std::vector<Band> bands = band_of(curves);
  ASSERT_EQ(bands.size(), 2u);
  EXPECT_NEAR(bands[1].mean, 0.6, 1e-12);
  EXPECT_EQ(bands[1].at_s, 10);
  EXPECT_NEAR(bands[1].low, 0.5, 1e-12);
  EXPECT_NEAR(bands[1].high, 0.7, 1e-12);
}

}  // namespace
}  // namespace fedqueue::simulation
