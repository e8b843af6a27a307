// The loops over float elements: accumulate updates, finish an element, measure and check.
//
// Bytes may have any alignment. f64 has accumulators of double, every other type of float. Results
// are the same bits with and without wide vector instructions: no fused multiply-add, and sums over
// elements go through eight fixed lanes.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "core/tensor/dtype.h"

namespace fedqueue {

// How many updates one pass over the accumulators takes in.
inline constexpr std::size_t terms_max = 4;

struct Term {
  const std::byte* delta = nullptr;
  const std::byte* base = nullptr;  // nullptr: the delta alone
  double weight = 0;
};

// accumulator[i] += weight · (base[i] + delta[i]) for every term, in their order.
void accumulate(tensor::DType dtype, std::span<const Term> terms, std::byte* accumulator,
                std::size_t elements);

// out[i] = keep · current[i] + accumulator[i], rounded to the type once. Returns
// Σ (out − current)², which is not finite if an element of `out` is not.
[[nodiscard]] double finish(tensor::DType dtype, const std::byte* accumulator,
                            const std::byte* current, double keep, std::byte* out,
                            std::size_t elements);

// Elements as the type of their accumulators, and back, rounded once; `round` returns as finish().
void widen(tensor::DType dtype, const std::byte* values, std::byte* out, std::size_t elements);
[[nodiscard]] double round(tensor::DType dtype, const std::byte* values, const std::byte* current,
                           std::byte* out, std::size_t elements);

// The size of an accumulator: 8 for f64, else 4.
[[nodiscard]] constexpr std::size_t accumulator_bytes(tensor::DType dtype) {
  return dtype == tensor::DType::f64 ? sizeof(double) : sizeof(float);
}

// Σ value², not finite if a value is not (or, for f64 alone, too large to be squared).
[[nodiscard]] double sum_of_squares(tensor::DType dtype, const std::byte* values,
                                    std::size_t elements);

// The first element that is NaN or infinite.
[[nodiscard]] std::optional<std::size_t> first_not_finite(tensor::DType dtype,
                                                          const std::byte* values,
                                                          std::size_t elements);

// One element as a number, and a number as one element.
[[nodiscard]] double load_element(tensor::DType dtype, const std::byte* values, std::size_t i);
void store_element(tensor::DType dtype, std::byte* values, std::size_t i, double value);

}  // namespace fedqueue
