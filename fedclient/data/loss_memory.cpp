#include "fedclient/data/loss_memory.h"

#include <cmath>

#include "core/base/assert.h"

namespace fedqueue {

void LossMemory::add(std::span<const std::int64_t> samples, std::span<const float> losses,
                     double memory) {
  FEDQUEUE_ASSERT(samples.size() == losses.size() && memory >= 0 && memory < 1);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (!std::isfinite(losses[i]) || losses[i] < 0) continue;
    float& mean = means_[static_cast<std::size_t>(samples[i])];
    mean = mean < 0 ? losses[i] : static_cast<float>(memory * mean + (1 - memory) * losses[i]);
  }
}

std::vector<double> LossMemory::probabilities(double floor) const {
  FEDQUEUE_ASSERT(floor > 0 && floor <= 1);
  double sum = 0;
  std::int64_t seen = 0;
  for (const float mean : means_) {
    if (mean < 0) continue;
    sum += mean;
    ++seen;
  }
  const auto count = static_cast<double>(means_.size());
  const double average = seen > 0 ? sum / static_cast<double>(seen) : 0;
  std::vector<double> result;
  result.reserve(means_.size());
  for (const float mean : means_) {
    // With the unseen at the average, all of them together are `count` averages.
    const double share = average > 0 ? (mean < 0 ? 1 : mean / average) : 1;
    result.push_back(((1 - floor) * share + floor) / count);
  }
  return result;
}

}  // namespace fedqueue
