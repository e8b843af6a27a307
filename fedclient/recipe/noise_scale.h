// How noisy gradients are, from their norms on one rank and over all ranks, which a step has at
// hand anyway; and what a larger batch is worth then.
//
//   G² = (B·|g_B|² − b·|g_b|²)/(B − b),  S = (|g_b|² − |g_B|²)/(1/b − 1/B),  noise scale = S/G²
//
// with b samples on a rank and B over all; |g_b|² is the mean over the ranks. Both are smoothed
// before they are divided, since each is an unbiased estimate and their ratio is not.
// Sources: McCandlish et al., "An Empirical Model of Large-Batch Training" (2018), appendix A;
// Johnson et al., "AdaScale SGD" (2020), equation 4.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <optional>

namespace fedqueue {

struct GradientNorms {
  double rank_squares = 0;    // mean over the ranks of |g_b|², each the mean over its samples
  double global_squares = 0;  // |g_B|²
  double rank_batch = 0;      // b
  double global_batch = 0;    // B
};

class NoiseScale {
 public:
  explicit NoiseScale(double smoothing = 0.05) : smoothing_(smoothing) {}

  // No effect with one rank, where b = B says nothing.
  void add(const GradientNorms& norms);

  // In samples: the batch beyond which a larger one gains little. Absent while unknown.
  [[nodiscard]] std::optional<double> samples() const;
  // AdaScale: how many steps of one rank's batch a step of `ranks` of them is worth, 1 … ranks.
  [[nodiscard]] double gain(int ranks) const;

 private:
  double smoothing_;
  double signal_ = 0;    // of G², smoothed
  double variance_ = 0;  // of S, smoothed
  double rank_batch_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace fedqueue
