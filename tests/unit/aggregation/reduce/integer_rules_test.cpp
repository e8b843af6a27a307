// Means and maxima at the limits of the integer types.
#include "aggregation/reduce/integer_rules.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace fedqueue {
namespace {

using tensor::DType;

template <typename T>
T merge(MergeRule rule, DType dtype, const std::vector<std::pair<T, double>>& updates, T current) {
  std::byte accumulator[16] = {};
  double total = 0;
  for (std::size_t k = 0; k < updates.size(); ++k) {
    std::byte bytes[sizeof(T)];
    std::memcpy(bytes, &updates[k].first, sizeof(T));
    accumulate_integers(rule, dtype, bytes, updates[k].second, k == 0, accumulator, 1);
    total += updates[k].second;
  }
  std::byte before[sizeof(T)];
  std::memcpy(before, &current, sizeof(T));
  std::byte after[sizeof(T)];
  finish_integers(rule, dtype, accumulator, before, total, updates.size(), after, 1);
  T result;
  std::memcpy(&result, after, sizeof(T));
  return result;
}

TEST(IntegerRules, EqualValuesGiveThatValueHoweverLarge) {
  constexpr std::int64_t large = std::numeric_limits<std::int64_t>::max() - 1;
  EXPECT_EQ(merge<std::int64_t>(MergeRule::integer_mean, DType::i64,
                                {{large, 0.1}, {large, 0.2}, {large, 0.7}}, 0),
            large);
  constexpr std::uint64_t larger = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(
      merge<std::uint64_t>(MergeRule::integer_mean, DType::u64, {{larger, 0.3}, {larger, 0.3}}, 0),
      larger);
}

TEST(IntegerRules, MeansRoundHalvesToEvenAndStayInsideTheType) {
  const auto mean = [](std::int8_t a, std::int8_t b) {
    return merge<std::int8_t>(MergeRule::integer_mean, DType::i8, {{a, 0.5}, {b, 0.5}}, 0);
  };
  EXPECT_EQ(mean(0, 1), 0);
  EXPECT_EQ(mean(1, 2), 2);
  EXPECT_EQ(mean(-1, -2), -2);
  EXPECT_EQ(mean(-3, -4), -4);
  EXPECT_EQ(mean(127, 127), 127);
  EXPECT_EQ(mean(-128, 127), 0);
  EXPECT_EQ(merge<std::uint8_t>(MergeRule::integer_mean, DType::u8, {{255, 2}, {0, -1}}, 0), 255);
}

TEST(IntegerRules, WithoutPositiveWeightTheCurrentValueStays) {
  EXPECT_EQ(merge<std::int32_t>(MergeRule::integer_mean, DType::i32, {{5, 0}, {6, 0}}, 9), 9);
  EXPECT_EQ(merge<std::uint8_t>(MergeRule::boolean_mean, DType::boolean, {{1, 0}}, 0), 0);
}

TEST(IntegerRules, MaximaCompareInTheirOwnType) {
  constexpr std::uint64_t large = 1ull << 63;
  EXPECT_EQ(merge<std::uint64_t>(MergeRule::integer_maximum, DType::u64, {{large, 1}, {3, 1}}, 4),
            large);
  EXPECT_EQ(merge<std::int64_t>(MergeRule::integer_maximum, DType::i64, {{-5, 1}, {-3, 1}}, -4),
            -3);
}

TEST(IntegerRules, PlainMeansTruncateTowardZeroAndDoNotOverflow) {
  const auto mean = [](std::int64_t a, std::int64_t b) {
    return merge<std::int64_t>(MergeRule::integer_truncated_mean, DType::i64, {{a, 0}, {b, 9}}, 0);
  };
  EXPECT_EQ(mean(7, 12), 9);
  EXPECT_EQ(mean(-7, -12), -9);
  constexpr std::int64_t large = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(mean(large, large), large);
}

}  // namespace
}  // namespace fedqueue
