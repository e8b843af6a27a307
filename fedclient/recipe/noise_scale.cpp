#include "fedclient/recipe/noise_scale.h"

#include <algorithm>

namespace fedqueue {

void NoiseScale::add(const GradientNorms& norms) {
  const double b = norms.rank_batch;
  const double B = norms.global_batch;
  if (!(b > 0) || !(B > b)) return;
  const double signal = (B * norms.global_squares - b * norms.rank_squares) / (B - b);
  const double variance = (norms.rank_squares - norms.global_squares) / (1 / b - 1 / B);
  const double share = count_ == 0 ? 1 : smoothing_;
  signal_ += share * (signal - signal_);
  variance_ += share * (variance - variance_);
  rank_batch_ = b;
  ++count_;
}

std::optional<double> NoiseScale::samples() const {
  if (count_ == 0 || !(signal_ > 0)) return std::nullopt;
  return std::max(0.0, variance_) / signal_;
}

double NoiseScale::gain(int ranks) const {
  if (count_ == 0 || ranks <= 1) return 1;
  const double f = ranks;
  const double variance = std::max(0.0, variance_) / rank_batch_;  // of one rank's gradient
  const double signal = std::max(0.0, signal_);
  if (!(variance + signal > 0)) return 1;
  return std::clamp((variance + signal) / (variance / f + signal), 1.0, f);
}

}  // namespace fedqueue
