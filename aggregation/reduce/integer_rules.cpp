#include "aggregation/reduce/integer_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

using tensor::DType;
__extension__ using Int128 = __int128;

template <typename T>
T load(const std::byte* bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::byte* bytes, std::size_t i, const T& value) {
  std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
}

// A mean is kept as the first value and the weighted differences from it: equal values give exactly
// that value, however large it is and whatever the weights.
template <typename T>
struct Mean {
  std::int64_t first_bits;
  double differences;

  [[nodiscard]] T first() const { return static_cast<T>(first_bits); }
};
static_assert(sizeof(Mean<std::int64_t>) == 16 && sizeof(Int128) == 16);

template <typename T>
void accumulate_typed(MergeRule rule, const std::byte* values, double weight, bool first,
                      std::byte* accumulator, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const T value = load<T>(values, i);
    if (rule == MergeRule::integer_maximum) {
      const auto before = static_cast<T>(load<std::int64_t>(accumulator, i));
      store(accumulator, i, static_cast<std::int64_t>(first ? value : std::max(before, value)));
    } else if (rule == MergeRule::integer_mean) {
      auto mean = load<Mean<T>>(accumulator, i);
      if (first) mean = {static_cast<std::int64_t>(value), 0};
      mean.differences += weight * static_cast<double>(Int128{value} - Int128{mean.first()});
      store(accumulator, i, mean);
    } else {
      const Int128 before = first ? Int128{0} : load<Int128>(accumulator, i);
      store(accumulator, i, before + Int128{value});
    }
  }
}

// Nearest integer, halves to even, kept inside the type.
template <typename T>
T rounded(const Mean<T>& mean, double total_weight) {
  const double difference = mean.differences / total_weight;
  if (difference == 0) return mean.first();
  const double value = std::nearbyint(static_cast<double>(mean.first()) + difference);
  constexpr auto lowest = std::numeric_limits<T>::lowest();
  constexpr auto highest = std::numeric_limits<T>::max();
  if (!(value > static_cast<double>(lowest))) return lowest;
  if (!(value < static_cast<double>(highest))) return highest;
  return static_cast<T>(value);
}

template <typename T>
void finish_typed(MergeRule rule, const std::byte* accumulator, const std::byte* current,
                  double total_weight, std::size_t count, std::byte* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    T value = load<T>(current, i);
    if (rule == MergeRule::integer_maximum) {
      value = std::max(value, static_cast<T>(load<std::int64_t>(accumulator, i)));
    } else if (rule == MergeRule::integer_truncated_mean) {
      value = static_cast<T>(load<Int128>(accumulator, i) / static_cast<Int128>(count));
    } else if (total_weight > 0) {
      value = rounded(load<Mean<T>>(accumulator, i), total_weight);
    }
    store(out, i, value);
  }
}

template <typename Function>
void with_integer(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::i64:
      return function(std::int64_t{});
    case DType::i32:
      return function(std::int32_t{});
    case DType::i16:
      return function(std::int16_t{});
    case DType::i8:
      return function(std::int8_t{});
    case DType::u64:
      return function(std::uint64_t{});
    case DType::u32:
      return function(std::uint32_t{});
    case DType::u16:
      return function(std::uint16_t{});
    default:
      FEDQUEUE_ASSERT(dtype == DType::u8);
      return function(std::uint8_t{});
  }
}

}  // namespace

void accumulate_integers(MergeRule rule, DType dtype, const std::byte* values, double weight,
                         bool first, std::byte* accumulator, std::size_t elements) {
  if (rule == MergeRule::boolean_mean) {
    for (std::size_t i = 0; i < elements; ++i) {
      const double before = first ? 0 : load<double>(accumulator, i);
      store(accumulator, i, before + (values[i] != std::byte{0} ? weight : 0));
    }
    return;
  }
  with_integer(dtype, [&](auto type) {
    accumulate_typed<decltype(type)>(rule, values, weight, first, accumulator, elements);
  });
}

void finish_integers(MergeRule rule, DType dtype, const std::byte* accumulator,
                     const std::byte* current, double total_weight, std::size_t count,
                     std::byte* out, std::size_t elements) {
  if (rule == MergeRule::boolean_mean) {
    for (std::size_t i = 0; i < elements; ++i) {
      const bool mean = load<double>(accumulator, i) >= 0.5 * total_weight;
      const bool value = total_weight > 0 ? mean : current[i] != std::byte{0};
      out[i] = std::byte{value};
    }
    return;
  }
  with_integer(dtype, [&](auto type) {
    finish_typed<decltype(type)>(rule, accumulator, current, total_weight, count, out, elements);
  });
}

}  // namespace fedqueue
