#include "aggregation/weighting/normalised.h"

#include <cmath>
#include <vector>

#include "core/base/assert.h"

namespace fedqueue {

double nova_normaliser(std::int64_t steps, const LocalOptimizer& optimizer) {
  if (steps <= 0) return 0;
  const auto count = static_cast<double>(steps);
  const double m = optimizer.momentum;
  const double shrink = optimizer.learning_rate * optimizer.proximal;
  if (shrink == 0 && m == 0) return count;
  if (shrink == 0) return count / (1 - m) - m * (1 - std::pow(m, count)) / ((1 - m) * (1 - m));
  double counter = 0;
  double length = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const double before = length;
    if (m != 0) {
      counter = m * counter + 1;
      length += counter;
    }
    length = length * (1 - shrink) + 1;
    if (length == before) break;  // it has reached its limit
  }
  return length;
}

void normalise_by_steps(std::span<double> shares, std::span<const std::int64_t> steps,
                        const LocalOptimizer& optimizer) {
  FEDQUEUE_ASSERT(shares.size() == steps.size());
  std::vector<double> lengths;
  double effective = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    lengths.push_back(nova_normaliser(steps[i], optimizer));
    effective +=
        shares[i] * (optimizer.proximal > 0 ? static_cast<double>(steps[i]) : lengths.back());
  }
  for (std::size_t i = 0; i < shares.size(); ++i)
    shares[i] = lengths[i] > 0 ? effective * shares[i] / lengths[i] : 0;
}

}  // namespace fedqueue
