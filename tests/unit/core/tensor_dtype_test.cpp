// Element types and the 16-bit float formats, against arithmetic that does not share their tricks.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/prng.h"
#include "core/tensor/dtype.h"

namespace fedqueue::tensor {
namespace {

// The value of a 16-bit float by definition: sign, exponent and fraction.
double defined_value(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

TEST(DType, NamesAndSizesAgreeWithTheFormat) {
  EXPECT_EQ(size_of(DType::f64), 8u);
  EXPECT_EQ(size_of(DType::bf16), 2u);
  EXPECT_EQ(size_of(DType::boolean), 1u);
  EXPECT_EQ(name_of(DType::boolean), "bool");
  EXPECT_EQ(wire_name_of(DType::bf16), "BF16");
  for (const char* name : {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32",
                           "U16", "U8", "BOOL"}) {
    const auto dtype = parse_dtype(name);
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(wire_name_of(*dtype), name);
  }
  EXPECT_FALSE(parse_dtype("F8_E4M3"));
  EXPECT_FALSE(parse_dtype("f32"));
  EXPECT_FALSE(parse_dtype(""));
}

TEST(DType, EverySixteenBitPatternHasItsDefinedValueAndReturns) {
  for (unsigned pattern = 0; pattern <= 0xffff; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const double half = defined_value(bits, 5, 10);
    const double brain = defined_value(bits, 8, 7);
    if (std::isnan(half)) {
      EXPECT_TRUE(std::isnan(float_from_f16(bits))) << pattern;
      EXPECT_TRUE(std::isnan(float_from_f16(f16_from_float(float_from_f16(bits))))) << pattern;
    } else {
      ASSERT_EQ(float_from_f16(bits), half) << pattern;
      ASSERT_EQ(f16_from_float(float_from_f16(bits)), bits) << pattern;
    }
    if (std::isnan(brain)) {
      EXPECT_TRUE(std::isnan(float_from_bf16(bits))) << pattern;
      EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(float_from_bf16(bits))))) << pattern;
    } else {
      ASSERT_EQ(float_from_bf16(bits), brain) << pattern;
      ASSERT_EQ(bf16_from_float(float_from_bf16(bits)), bits) << pattern;
    }
  }
}

// Between two neighbours the nearer wins, and in the middle the one with an even last bit.
void expect_rounding_between(std::uint16_t low, int exponent_bits, int fraction_bits,
                             std::uint16_t (*convert)(float)) {
  const auto high = static_cast<std::uint16_t>(low + 1);
  const double a = defined_value(low, exponent_bits, fraction_bits);
  const double b = defined_value(high, exponent_bits, fraction_bits);
  const auto middle = static_cast<float>((a + b) / 2);
  ASSERT_EQ(static_cast<double>(middle), (a + b) / 2) << low;
  EXPECT_EQ(convert(middle), (low & 1) == 0 ? low : high) << low;
  EXPECT_EQ(convert(std::nextafter(middle, 0.0f)), low) << low;
  EXPECT_EQ(convert(std::nextafter(middle, std::numeric_limits<float>::infinity())), high) << low;
  EXPECT_EQ(convert(-middle), 0x8000 | ((low & 1) == 0 ? low : high)) << low;
}

TEST(DType, RoundsToNearestEven) {
  for (std::uint16_t low = 0; low < 0x7bff; ++low) {
    expect_rounding_between(low, 5, 10, f16_from_float);
  }
  for (std::uint16_t low = 0x0080; low < 0x7f7f; ++low) {
    expect_rounding_between(low, 8, 7, bf16_from_float);
  }
}

TEST(DType, OverflowGivesInfinity) {
  EXPECT_EQ(f16_from_float(65504), 0x7bff);
  EXPECT_EQ(f16_from_float(65519.996f), 0x7bff);
  EXPECT_EQ(f16_from_float(65520), 0x7c00);
  EXPECT_EQ(f16_from_float(-1e30f), 0xfc00);
  EXPECT_EQ(f16_from_float(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(bf16_from_float(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace fedqueue::tensor
