#include "aggregation/weighting/participation.h"

#include <algorithm>
#include <cmath>
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

double participation_at_arrival(double participation, double gamma, double windows) {
  return participation * std::pow(1 - gamma, std::max(0.0, windows - 1));
}

double participation_after_arrival(double participation, double gamma, double windows,
                                   double counted_factor) {
  return participation * std::pow(1 - gamma, std::max(0.0, windows)) + gamma * counted_factor;
}

double first_presence(std::optional<double> predicted_wait_s, double job_s, bool submits_early) {
  if (!predicted_wait_s || *predicted_wait_s <= 0 || job_s <= 0) return 1;
  return std::min(1.0, job_s / (*predicted_wait_s + (submits_early ? 0 : job_s)));
}

}  // namespace fedqueue
