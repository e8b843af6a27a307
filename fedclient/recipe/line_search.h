// The step along a direction at which the directional derivative changes its sign from negative to
// positive, when every look is at another mini-batch.
//
// Losses of different mini-batches jump, and tell nothing about where the minimum is; the sign of
// F'(a) = d·∇L(x + a·d) does. With the tolerance t = 0.9·|F'(0)|, from a as it was before:
//
//   0 ≤ F'(a) ≤ t   accept
//   F'(a) > t       halve a until F'(a) ≤ t
//   F'(a) < 0       double a until F'(a) ≥ 0
//
// and stop at 1e-8 and 1e7.
// Source: Kafka and Wilke, "Resolving learning rates adaptively by locating stochastic non-negative
// associated gradient projection points using line searches" (2021), GOLS-I.
//
// Thread safety: pure functions.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

struct LineSearchSettings {
  double least = 1e-8;
  double most = 1e7;
  double tolerance = 0.9;  // of |F'(0)|
};

struct LineSearchLook {
  double length = 0;  // a
  double slope = 0;   // F'(a)
};

struct LineSearchResult {
  double length = 0;     // what was accepted
  bool bounded = false;  // true: a limit ended the search
  std::vector<LineSearchLook> looks;
};

// `slope(a)` is F'(a) on a new mini-batch; a failure there is returned. REQUIRES: start > 0.
Result<LineSearchResult> find_sign_change(double start, double slope_at_zero,
                                          const std::function<Result<double>(double)>& slope,
                                          const LineSearchSettings& settings = {});

// The one in the middle, of an even number the lower. REQUIRES: at least one.
[[nodiscard]] double median_length(std::span<const LineSearchResult> searches);

}  // namespace fedqueue
