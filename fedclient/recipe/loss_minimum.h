// Whether a curve of losses has passed its minimum, and where that was.
//
// The losses lie evenly on x = 0 … 1. Two tests answer the question:
//
//   Gaussian process   constant mean, kernel s·exp(−(x − x')²/(2·0.2²)), noise σ². The mean, s and
//                      σ² follow the marginal likelihood of at most 100 of the losses. Five
//                      predictions, each from at most 200 of them, on 500 places each vote that
//                      max over x of P(f(x) < f(1)) > 0.95; three votes pass.
//   kernel             weighted means with weights exp(−(x − x')²/(2·0.05²)), and Welch's test
//                      between the lowest and the last of them: P > 0.95 passes. Far cheaper.
//
// Which losses are drawn follows from `seed`, so that ranks with the same losses agree.
// Source: Kim et al., "Automated Learning Rate Scheduler for Large-batch Training" (AutoWU, 2021),
// section 3.2; the kernel test is its cheap substitute.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace fedqueue {

// What is kept from one test to the next: the logarithm-like parameters of s and σ² (both are the
// softplus of theirs, σ² at least 1e-4) and what Adam knows of them and of the mean. Plain bytes.
struct GaussianProcess {
  double scale = 0;
  double noise = -7.012665;  // σ² = 1e-3
  std::array<double, 3> first{};
  std::array<double, 3> second{};
  std::int64_t adam_steps = 0;

  friend bool operator==(const GaussianProcess&, const GaussianProcess&) = default;
};

struct LossMinimum {
  bool passed = false;
  std::array<double, 5> places{};  // x of the lowest mean in each prediction
};

// Φ of the difference in its standard deviation: P(f_i < f_last) for means and (co)variances.
[[nodiscard]] double probability_below(double mean, double mean_last, double variance,
                                       double variance_last, double covariance);

// REQUIRES: at least three losses, all finite.
[[nodiscard]] LossMinimum gaussian_process_minimum(std::span<const double> losses,
                                                   GaussianProcess& process, std::uint64_t seed);
[[nodiscard]] LossMinimum kernel_minimum(std::span<const double> losses);

}  // namespace fedqueue
