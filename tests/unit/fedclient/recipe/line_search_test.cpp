#include "fedclient/recipe/line_search.h"

#include <gtest/gtest.h>

#include <limits>

namespace fedqueue {
namespace {

// F'(a) = a − 1, so that F'(0) = −1 and the tolerance is 0.9.
Result<double> parabola(double length) { return length - 1; }

std::vector<double> lengths(const LineSearchResult& result) {
  std::vector<double> values;
  for (const LineSearchLook& look : result.looks) values.push_back(look.length);
  return values;
}

TEST(LineSearch, DoublesUntilTheSlopeTurnsPositive) {
  const auto found = find_sign_change(0.25, -1, parabola);
  ASSERT_TRUE(found);
  EXPECT_EQ(lengths(*found), (std::vector<double>{0.25, 0.5, 1}));
  EXPECT_EQ(found->looks[0].slope, -0.75);
  EXPECT_EQ(found->length, 1);
  EXPECT_FALSE(found->bounded);
}

TEST(LineSearch, HalvesUntilTheSlopeIsWithinTheTolerance) {
  const auto found = find_sign_change(4, -1, parabola);
  ASSERT_TRUE(found);
  EXPECT_EQ(lengths(*found), (std::vector<double>{4, 2, 1}));
  EXPECT_EQ(found->length, 1);
}

TEST(LineSearch, AcceptsAtOnceWithinTheTolerance) {
  const auto found = find_sign_change(1.8, -1, parabola);
  ASSERT_TRUE(found);
  EXPECT_EQ(lengths(*found), (std::vector<double>{1.8}));
}

TEST(LineSearch, StopsAtItsLimits) {
  const auto down = find_sign_change(1, -1, [](double) -> Result<double> { return -1; });
  ASSERT_TRUE(down);
  EXPECT_TRUE(down->bounded);
  EXPECT_EQ(down->length, 8388608) << "the last power of two below 1e7";
  const auto up = find_sign_change(
      1, -1, [](double) -> Result<double> { return std::numeric_limits<double>::infinity(); });
  ASSERT_TRUE(up);
  EXPECT_TRUE(up->bounded);
  EXPECT_GE(up->length, 1e-8);
}

TEST(LineSearch, AFailedLookEndsIt) {
  const auto found = find_sign_change(1, -1, [](double length) -> Result<double> {
    if (length > 2) return Error{Code::data, "read a sample", ""};
    return -1;
  });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::data);
}

TEST(LineSearch, TheMedianIsOneOfTheLengths) {
  std::vector<LineSearchResult> searches(4);
  searches[0].length = 8;
  searches[1].length = 0.5;
  searches[2].length = 1;
  searches[3].length = 2;
  EXPECT_EQ(median_length(searches), 1);
}

}  // namespace
}  // namespace fedqueue
