// Running variances, merged by the law of total variance.
//
//   var = Σ ã_k (var_k + mean_k²) − (Σ ã_k mean_k)²,   ã_k = a_k / Σ a
//
// The part that a plain weighted mean would miss is the spread of the means, Σ ã_k mean_k² −
// (Σ ã_k mean_k)². It does not change when all means are shifted, so deltas against one base carry
// it just as the means themselves do; when the weights sum to less than one (a partial step) it is
// added in that share. When models are mixed the current one is a part as the updates are.
//
// Thread safety: pure.
#pragma once

#include <cstddef>
#include <span>

#include "aggregation/reduce/plan.h"
#include "core/base/result.h"

namespace fedqueue {

struct Reduction;

// Merges a segment of a running variance into `out`; returns Σ (new − current)².
[[nodiscard]] Result<double> pool_variances(const Reduction& reduction, const Segment& segment,
                                            std::span<std::byte> out);

}  // namespace fedqueue
