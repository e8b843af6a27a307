// How much an update counts that was trained from an old version: s(τ), with s(0) = 1.
//
// Promises: a value in [0, 1], finite, not increasing in τ. A negative τ counts as 0.
//
// Thread safety: immutable value.
// Source: FedQueue's reference code (constant, harmonic, exponential) and FedAsync, arXiv
// 1903.03934 (polynomial, hinge).
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace fedqueue {

class StalenessFunction {
 public:
  enum class Kind { constant, harmonic, exponential, polynomial, hinge };

  StalenessFunction() = default;  // constant
  [[nodiscard]] static StalenessFunction constant();
  [[nodiscard]] static StalenessFunction harmonic(double beta);        // 1/(1 + β·τ)
  [[nodiscard]] static StalenessFunction exponential(double beta);     // exp(−β·τ)
  [[nodiscard]] static StalenessFunction polynomial(double exponent);  // (τ + 1)^(−x)
  [[nodiscard]] static StalenessFunction hinge(double slope, double threshold);
  // hinge: 1 up to the threshold b, then 1/(x·(τ − b) + 1)

  // By name. `first` is β, the exponent or the slope; `second` is the hinge's threshold.
  [[nodiscard]] static Result<StalenessFunction> named(std::string_view name, double first,
                                                       double second);
  // A name with its parameters: "constant", "harmonic:0.5", "exponential:0.5", "polynomial:0.5",
  // "hinge:10,4". Left out, they are β 0.5, exponent 0.5, slope 10 and threshold 4.
  [[nodiscard]] static Result<StalenessFunction> parse(std::string_view text);

  // τ may be a fraction: policies that publish on every arrival count in units of facilities.
  [[nodiscard]] double operator()(double staleness) const;

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::string text() const;  // what parse() reads back

 private:
  StalenessFunction(Kind kind, double first, double second)
      : kind_(kind), first_(first), second_(second) {}

  Kind kind_ = Kind::constant;
  double first_ = 0;
  double second_ = 0;
};

}  // namespace fedqueue
