// Element types of tensors as safetensors names them, and the two 16-bit float formats as numbers.
//
// Conversions to a 16-bit format round to nearest, ties to even; overflow gives infinity, NaN stays
// NaN. They are branch-free enough for a compiler to vectorise a loop over them.
//
// Thread safety: pure functions. Source: IEEE 754-2019 (binary16); bfloat16 is the upper half of
// binary32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace fedqueue::tensor {

enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
};

// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype);

// As people write it: "f32", "bf16", "bool".
[[nodiscard]] std::string_view name_of(DType dtype);

// As the file writes it: "F32", "BF16", "BOOL".
[[nodiscard]] std::string_view wire_name_of(DType dtype);

// The type of that wire name, or nothing.
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view wire_name);

[[nodiscard]] constexpr bool is_float(DType dtype) { return dtype <= DType::bf16; }
[[nodiscard]] constexpr bool is_integer(DType dtype) {
  return dtype >= DType::i64 && dtype <= DType::u8;
}

[[nodiscard]] inline float float_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

[[nodiscard]] inline std::uint16_t bf16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;  // rounding could carry a NaN into infinity
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

[[nodiscard]] inline float float_from_f16(std::uint16_t bits) {
  // The 15 magnitude bits, moved into place, are the value with an exponent bias of 15 instead of
  // 127; one multiplication by 2^112 corrects normal and subnormal numbers alike.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1.0p112f;
  const std::uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;  // infinity and NaN
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

[[nodiscard]] inline std::uint16_t f16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Subnormal results: adding 0.5 lets the addition itself round at the last bit of binary16.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  // Normal results: move the bias from 127 to 15 and round to nearest even in integers.
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const std::uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const std::uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  return static_cast<std::uint16_t>(sign | (magnitude >= 0x47800000u ? special : finite));
}

}  // namespace fedqueue::tensor
