#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "aggregation/weighting/base_weights.h"
#include "aggregation/weighting/participation.h"
#include "aggregation/weighting/staleness.h"

namespace fedqueue {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(Staleness, FollowsThePublishedTables) {
  struct Row {
    const char* function;
    std::vector<double> taus;
    std::vector<double> factors;
  };
  const Row rows[] = {
      {"constant", {0, 1, 50}, {1, 1, 1}},
      {"harmonic:0.5", {0, 1, 2, 3}, {1, 2.0 / 3, 0.5, 0.4}},
      {"exponential:0.5", {0, 1, 2, 3}, {1, 0.6065306597, 0.3678794412, 0.2231301601}},
      {"polynomial:0.5", {0, 3, 5, 8}, {1, 0.5, 0.4082482905, 0.3333333333}},
      {"hinge:10,4", {0, 3, 4, 5, 8}, {1, 1, 1, 0.0909090909, 0.0243902439}},
  };
  for (const Row& row : rows) {
    const auto function = StalenessFunction::parse(row.function);
    ASSERT_TRUE(function) << row.function;
    for (std::size_t i = 0; i < row.taus.size(); ++i)
      EXPECT_NEAR((*function)(row.taus[i]), row.factors[i], 1e-10) << row.function;
    EXPECT_EQ(function->text(), row.function);
  }
}

TEST(Staleness, NeverAmplifiesAndNeverBreaks) {
  for (const char* text : {"constant", "harmonic", "exponential", "polynomial", "hinge"}) {
    const StalenessFunction function = *StalenessFunction::parse(text);
    double previous = 1;
    for (const double tau : {-5.0, 0.0, 0.5, 1.0, 4.0, 5.0, 100.0, 1e9}) {
      const double factor = function(tau);
      EXPECT_TRUE(std::isfinite(factor)) << text << " " << tau;
      EXPECT_GE(factor, 0);
      EXPECT_LE(factor, previous) << text << " " << tau;
      previous = factor;
    }
    EXPECT_EQ(function(0), 1);
  }
}

TEST(Staleness, ExplainsWhatItCannotRead) {
  EXPECT_THAT(StalenessFunction::parse("harmonix:0.5").error().cure, HasSubstr("harmonic"));
  EXPECT_FALSE(StalenessFunction::parse("harmonic:x"));
  EXPECT_FALSE(StalenessFunction::parse("harmonic:0.5,2"));
  EXPECT_FALSE(StalenessFunction::parse("constant:1"));
  EXPECT_FALSE(StalenessFunction::parse(""));
  // The sign that once amplified stale updates in a published configuration.
  EXPECT_THAT(StalenessFunction::parse("polynomial:-0.5").error().message, HasSubstr("≥ 0"));
}

TEST(Participation, FirstValueIsTheShareOfRoundsTheWaitAllows) {
  EXPECT_NEAR(first_participation(100, 0.15, 300, 40), 0.3382352941, 1e-10);
  EXPECT_EQ(first_participation(100, 0.15, 10, 40), 1);
  EXPECT_EQ(first_participation(100, 0.15, std::nullopt, 40), 1);
  EXPECT_EQ(first_participation(100, 0.15, 0, 0), 1);
}

TEST(Participation, WeightsStayFiniteAtTheEdges) {
  EXPECT_EQ(participation_weight(0.5, 1, 0, 0), 0);
  EXPECT_EQ(participation_weight(0, 1, 0, 0.1), 0);
  EXPECT_DOUBLE_EQ(participation_weight(0.5, 1, 0.01, 0.1), 5);
  EXPECT_DOUBLE_EQ(update_participation(1, 0.05, 0), 0.95);
}

TEST(Participation, LargeSumsAreScaledDownAndSmallOnesLeftAlone) {
  std::vector<double> large{1, 3, 4};
  limit_sum(large, 2);
  EXPECT_THAT(large, ElementsAre(0.25, 0.75, 1));
  std::vector<double> small{0.25, 0.5};
  limit_sum(small, 2);
  EXPECT_THAT(small, ElementsAre(0.25, 0.5));
  std::vector<double> none;
  limit_sum(none, 2);
  EXPECT_TRUE(none.empty());
}

TEST(BaseWeights, AreSharesWhateverTheAmounts) {
  EXPECT_THAT(proportional_shares(std::vector<std::int64_t>{10, 30}), ElementsAre(0.25, 0.75));
  EXPECT_THAT(proportional_shares(std::vector<std::int64_t>{0, 30, -7}), ElementsAre(0, 1, 0));
  EXPECT_THAT(proportional_shares(std::vector<std::int64_t>{0, 0}), ElementsAre(0.5, 0.5));
  EXPECT_TRUE(proportional_shares({}).empty());
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT(proportional_shares(std::vector<std::int64_t>{most, most}), ElementsAre(0.5, 0.5));
}

TEST(ShareCap, LeavesEqualFacilitiesAndPairsAlone) {
  for (std::size_t count = 1; count < 12; ++count)
    EXPECT_EQ(cap_shares(equal_shares(count), share_cap_default), equal_shares(count));
  EXPECT_THAT(cap_shares({0.99, 0.01}, share_cap_default), ElementsAre(0.99, 0.01));
  EXPECT_THAT(cap_shares({1, 0, 0, 0, 0}, share_cap_default), ElementsAre(1, 0, 0, 0, 0));
}

TEST(ShareCap, OneFacilityNeverOutweighsAllOthers) {
  const std::vector<double> capped = cap_shares({0.85, 0.05, 0.05, 0.05}, share_cap_default);
  EXPECT_THAT(capped, Pointwise(DoubleNear(1e-12), {0.5, 1.0 / 6, 1.0 / 6, 1.0 / 6}));
  EXPECT_THAT(cap_shares({0.85, 0.05, 0.05, 0.05}, 1), ElementsAre(0.85, 0.05, 0.05, 0.05));
}

TEST(ShareCap, RaisedOthersAreCappedAsWell) {
  const std::vector<double> capped =
      cap_shares({0.60, 0.20, 0.05, 0.05, 0.02, 0.02, 0.02, 0.02, 0.01, 0.01}, 0.25);
  EXPECT_NEAR(sum(capped), 1, 1e-12);
  EXPECT_NEAR(capped[0], 0.25, 1e-12);
  EXPECT_NEAR(capped[1], 0.25, 1e-12);
  EXPECT_NEAR(capped[2] / capped[9], 5, 1e-9);
}

TEST(WaitFactor, IsOneUnlessAskedFor) {
  EXPECT_EQ(wait_factor(WaitFactor::none, 0.5, 1e6, 100), 1);
  EXPECT_EQ(wait_factor(WaitFactor::harmonic, 0.5, std::nullopt, 100), 1);
  EXPECT_DOUBLE_EQ(wait_factor(WaitFactor::harmonic, 0.5, 200, 100), 0.5);
  EXPECT_EQ(wait_factor(WaitFactor::harmonic, 0.5, -3, 100), 1);
  EXPECT_EQ(wait_factor(WaitFactor::harmonic, 0.5, std::nan(""), 100), 1);
  EXPECT_FALSE(parse_wait_factor("linear"));
}

}  // namespace
}  // namespace fedqueue
