#include "aggregation/weighting/participation.h"

#include <algorithm>
#include <numeric>

namespace fedqueue {

double first_participation(double t_sync_s, double admission_tolerance,
                           std::optional<double> predicted_wait_s, double budget_s) {
  if (!predicted_wait_s) return 1;
  const double needed_s = std::max(0.0, *predicted_wait_s) + std::max(0.0, budget_s);
  const double available_s = std::max(0.0, t_sync_s * (1 + admission_tolerance));
  return needed_s <= available_s ? 1 : available_s / needed_s;
}

double participation_weight(double share, double staleness_factor, double participation,
                            double participation_min) {
  const double divisor = std::max(participation, participation_min);
  if (!(divisor > 0)) return 0;
  return std::max(0.0, share) * std::max(0.0, staleness_factor) / divisor;
}

double update_participation(double participation, double gamma, double counted_factor) {
  return (1 - gamma) * participation + gamma * counted_factor;
}

void limit_sum(std::span<double> weights, double sum_max) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!(sum > sum_max)) return;
  for (double& weight : weights) weight *= sum_max / sum;
}

}  // namespace fedqueue
