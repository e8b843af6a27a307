#include "aggregation/reduce/float_kernels.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/base/assert.h"

// Each loop is written once and compiled twice, for any processor and for wide vectors; the choice
// is made when it runs. (Compiler-made dispatch would do this too, but not under the sanitizers.)
#if defined(__x86_64__) && defined(__GNUC__)
#define FEDQUEUE_WIDE __attribute__((target("avx2")))
#define FEDQUEUE_HAVE_WIDE 1
#else
#define FEDQUEUE_WIDE
#define FEDQUEUE_HAVE_WIDE 0
#endif
#define FEDQUEUE_INLINE __attribute__((always_inline)) inline

namespace fedqueue {
namespace {

using tensor::DType;

constexpr std::size_t lanes = 8;

bool wide_vectors() {
#if FEDQUEUE_HAVE_WIDE
  static const bool available = __builtin_cpu_supports("avx2") != 0;
  return available;
#else
  return false;
#endif
}

template <typename Bits>
FEDQUEUE_INLINE Bits load_bits(const std::byte* bytes, std::size_t i) {
  Bits bits;
  std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
  return bits;
}

template <typename Bits>
FEDQUEUE_INLINE void store_bits(std::byte* bytes, std::size_t i, Bits bits) {
  std::memcpy(bytes + i * sizeof(Bits), &bits, sizeof(Bits));
}

struct F64 {
  using Bits = double;
  using Wide = double;  // the type of accumulators
  FEDQUEUE_INLINE static double widen(double value) { return value; }
  FEDQUEUE_INLINE static double round(double value) { return value; }
};
struct F32 {
  using Bits = float;
  using Wide = float;
  FEDQUEUE_INLINE static float widen(float value) { return value; }
  FEDQUEUE_INLINE static float round(float value) { return value; }
};
struct F16 {
  using Bits = std::uint16_t;
  using Wide = float;
  FEDQUEUE_INLINE static float widen(Bits bits) { return tensor::float_from_f16(bits); }
  FEDQUEUE_INLINE static Bits round(float value) { return tensor::f16_from_float(value); }
};
struct BF16 {
  using Bits = std::uint16_t;
  using Wide = float;
  FEDQUEUE_INLINE static float widen(Bits bits) { return tensor::float_from_bf16(bits); }
  FEDQUEUE_INLINE static Bits round(float value) { return tensor::bf16_from_float(value); }
};

template <typename E>
FEDQUEUE_INLINE typename E::Wide load(const std::byte* bytes, std::size_t i) {
  return E::widen(load_bits<typename E::Bits>(bytes, i));
}

template <typename E, bool rebuild>
FEDQUEUE_INLINE void accumulate_one(const Term& term, std::byte* accumulator, std::size_t n) {
  using Wide = typename E::Wide;
  auto* const sum = reinterpret_cast<Wide*>(accumulator);
  const auto weight = static_cast<Wide>(term.weight);
  for (std::size_t i = 0; i < n; ++i) {
    Wide value = load<E>(term.delta, i);
    if constexpr (rebuild) value = load<E>(term.base, i) + value;
    sum[i] += weight * value;
  }
}

// Four updates in one pass: the accumulators travel once instead of four times. The additions of
// an element stay in their order.
template <typename E>
FEDQUEUE_INLINE void accumulate_four(const Term* terms, std::byte* accumulator, std::size_t n) {
  using Wide = typename E::Wide;
  auto* const sum = reinterpret_cast<Wide*>(accumulator);
  const auto w0 = static_cast<Wide>(terms[0].weight);
  const auto w1 = static_cast<Wide>(terms[1].weight);
  const auto w2 = static_cast<Wide>(terms[2].weight);
  const auto w3 = static_cast<Wide>(terms[3].weight);
  const std::byte* const d0 = terms[0].delta;
  const std::byte* const d1 = terms[1].delta;
  const std::byte* const d2 = terms[2].delta;
  const std::byte* const d3 = terms[3].delta;
  for (std::size_t i = 0; i < n; ++i) {
    Wide value = sum[i];
    value += w0 * load<E>(d0, i);
    value += w1 * load<E>(d1, i);
    value += w2 * load<E>(d2, i);
    value += w3 * load<E>(d3, i);
    sum[i] = value;
  }
}

template <typename E>
FEDQUEUE_INLINE void accumulate_body(std::span<const Term> terms, std::byte* accumulator,
                                     std::size_t n) {
  bool rebuild = false;
  for (const Term& term : terms) rebuild = rebuild || term.base != nullptr;
  if (terms.size() == terms_max && !rebuild) {
    accumulate_four<E>(terms.data(), accumulator, n);
    return;
  }
  for (const Term& term : terms) {
    if (term.base != nullptr) {
      accumulate_one<E, true>(term, accumulator, n);
    } else {
      accumulate_one<E, false>(term, accumulator, n);
    }
  }
}

FEDQUEUE_INLINE double total(const double (&sums)[lanes]) {
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

// How much of the current model is in the result.
enum class Keep { nothing, whole, share };

// One element of the result; returns the square of its step.
template <typename E, Keep keep>
FEDQUEUE_INLINE double finish_one(typename E::Wide sum, const std::byte* current,
                                  typename E::Wide share, std::byte* out, std::size_t i) {
  const typename E::Wide before = load<E>(current, i);
  if constexpr (keep == Keep::whole) sum = before + sum;
  if constexpr (keep == Keep::share) sum = share * before + sum;
  const typename E::Bits bits = E::round(sum);
  store_bits(out, i, bits);
  const double step = static_cast<double>(E::widen(bits)) - static_cast<double>(before);
  return step * step;
}

template <typename E, Keep keep>
FEDQUEUE_INLINE double finish_loop(const std::byte* accumulator, const std::byte* current,
                                   typename E::Wide share, std::byte* out, std::size_t n) {
  using Wide = typename E::Wide;
  const auto* const sum = reinterpret_cast<const Wide*>(accumulator);
  double squares[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      squares[lane] += finish_one<E, keep>(sum[i + lane], current, share, out, i + lane);
    }
  }
  for (std::size_t lane = 0; i < n; ++i, ++lane) {
    squares[lane] += finish_one<E, keep>(sum[i], current, share, out, i);
  }
  return total(squares);
}

template <typename E>
FEDQUEUE_INLINE double finish_body(const std::byte* accumulator, const std::byte* current,
                                   double keep, std::byte* out, std::size_t n) {
  const auto share = static_cast<typename E::Wide>(keep);
  if (keep == 1) return finish_loop<E, Keep::whole>(accumulator, current, share, out, n);
  if (keep == 0) return finish_loop<E, Keep::nothing>(accumulator, current, share, out, n);
  return finish_loop<E, Keep::share>(accumulator, current, share, out, n);
}

template <typename E>
FEDQUEUE_INLINE double squares_body(const std::byte* values, std::size_t n) {
  double squares[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const auto value = static_cast<double>(load<E>(values, i + lane));
      squares[lane] += value * value;
    }
  }
  for (std::size_t lane = 0; i < n; ++i, ++lane) {
    const auto value = static_cast<double>(load<E>(values, i));
    squares[lane] += value * value;
  }
  return total(squares);
}

template <typename E>
struct AnyProcessor {
  static void accumulate(std::span<const Term> terms, std::byte* accumulator, std::size_t n) {
    accumulate_body<E>(terms, accumulator, n);
  }
  static double finish(const std::byte* accumulator, const std::byte* current, double keep,
                       std::byte* out, std::size_t n) {
    return finish_body<E>(accumulator, current, keep, out, n);
  }
  static double squares(const std::byte* values, std::size_t n) {
    return squares_body<E>(values, n);
  }
};

template <typename E>
struct WideVectors {
  FEDQUEUE_WIDE static void accumulate(std::span<const Term> terms, std::byte* accumulator,
                                       std::size_t n) {
    accumulate_body<E>(terms, accumulator, n);
  }
  FEDQUEUE_WIDE static double finish(const std::byte* accumulator, const std::byte* current,
                                     double keep, std::byte* out, std::size_t n) {
    return finish_body<E>(accumulator, current, keep, out, n);
  }
  FEDQUEUE_WIDE static double squares(const std::byte* values, std::size_t n) {
    return squares_body<E>(values, n);
  }
};

// Calls function(E{}) with the element type of a float dtype.
template <typename Function>
auto with_element(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::f64:
      return function(F64{});
    case DType::f16:
      return function(F16{});
    case DType::bf16:
      return function(BF16{});
    default:
      FEDQUEUE_ASSERT(dtype == DType::f32);
      return function(F32{});
  }
}

}  // namespace

void accumulate(DType dtype, std::span<const Term> terms, std::byte* accumulator,
                std::size_t elements) {
  with_element(dtype, [&](auto element) {
    using E = decltype(element);
    wide_vectors() ? WideVectors<E>::accumulate(terms, accumulator, elements)
                   : AnyProcessor<E>::accumulate(terms, accumulator, elements);
  });
}

double finish(DType dtype, const std::byte* accumulator, const std::byte* current, double keep,
              std::byte* out, std::size_t elements) {
  return with_element(dtype, [&](auto element) {
    using E = decltype(element);
    return wide_vectors() ? WideVectors<E>::finish(accumulator, current, keep, out, elements)
                          : AnyProcessor<E>::finish(accumulator, current, keep, out, elements);
  });
}

void widen(DType dtype, const std::byte* values, std::byte* out, std::size_t elements) {
  with_element(dtype, [&](auto element) {
    using E = decltype(element);
    for (std::size_t i = 0; i < elements; ++i) store_bits(out, i, load<E>(values, i));
  });
}

double round(DType dtype, const std::byte* values, const std::byte* current, std::byte* out,
             std::size_t elements) {
  return finish(dtype, values, current, 0, out, elements);
}

double sum_of_squares(DType dtype, const std::byte* values, std::size_t elements) {
  return with_element(dtype, [&](auto element) {
    using E = decltype(element);
    return wide_vectors() ? WideVectors<E>::squares(values, elements)
                          : AnyProcessor<E>::squares(values, elements);
  });
}

std::optional<std::size_t> first_not_finite(DType dtype, const std::byte* values,
                                            std::size_t elements) {
  return with_element(dtype, [&](auto element) -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < elements; ++i) {
      if (!std::isfinite(load<decltype(element)>(values, i))) return i;
    }
    return std::nullopt;
  });
}

double load_element(DType dtype, const std::byte* values, std::size_t i) {
  return with_element(
      dtype, [&](auto element) { return static_cast<double>(load<decltype(element)>(values, i)); });
}

void store_element(DType dtype, std::byte* values, std::size_t i, double value) {
  with_element(dtype, [&](auto element) {
    using E = decltype(element);
    store_bits(values, i, E::round(static_cast<typename E::Wide>(value)));
  });
}

}  // namespace fedqueue
