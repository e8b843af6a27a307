#include "aggregation/planning/segment_length.h"

#include <algorithm>
#include <cmath>

namespace fedqueue {

std::int64_t segment_steps(std::optional<double> sync_seconds, std::optional<double> step_seconds,
                           const SegmentLimits& limits) {
  if (!sync_seconds || !step_seconds || *step_seconds <= 0)
    return std::clamp(limits.usual, limits.min, limits.max);
  const double others = 1 / limits.sync_share_max - 1;  // training seconds per exchange second
  const double steps = std::ceil(std::max(0.0, *sync_seconds) * others / *step_seconds - 1e-9);
  if (!(steps < static_cast<double>(limits.max))) return limits.max;
  return std::max(limits.min, static_cast<std::int64_t>(steps));
}

}  // namespace fedqueue
