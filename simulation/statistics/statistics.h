// The arithmetic behind a comparison of policies: when a target was reached, ratios of times and
// how sure they are.
//
// Promises: pure functions of their arguments; resampling is seeded, so that the same cells give
// the same interval on every platform.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/result.h"

namespace fedqueue::simulation {

struct CurvePoint {
  double at_s = 0;  // virtual
  double accuracy = 0;
  double loss = 0;
  double node_seconds = 0;  // of our allocations, up to then
};

// The time of the first of `sustained` consecutive points that are all at or above the target; one
// lucky evaluation does not count. Nothing if that never happens within the curve.
[[nodiscard]] std::optional<double> time_to_target_s(std::span<const CurvePoint> curve,
                                                     double target, int sustained = 3);

// Node time that was used when a point of the curve was measured: of the first one at or after
// `at_s`, else of the last. REQUIRES: not empty.
[[nodiscard]] double node_seconds_at(std::span<const CurvePoint> curve, double at_s);

// exp of the mean logarithm. REQUIRES: not empty, all > 0.
[[nodiscard]] double geometric_mean(std::span<const double> values);

// One paired comparison: the same setting and the same seed under two policies.
struct PairedRatio {
  std::size_t setting = 0;  // the cluster
  double ratio = 1;         // ours / theirs; > 0
};

struct Interval {
  double estimate = 1;
  double low = 1;
  double high = 1;
  std::size_t pairs = 0;
  std::size_t clusters = 0;
};

struct BootstrapOptions {
  int resamples = 10000;
  double confidence = 0.95;
  std::uint64_t seed = 1;
};

// The geometric mean of the ratios and its percentile interval. Seeds of one setting resemble each
// other, so settings are drawn first, with replacement, and then seeds within each drawn setting;
// with one setting only the seeds are drawn. Every setting has the same weight in the mean,
// whatever its number of seeds.
// Source: Davison and Hinkley, "Bootstrap Methods and their Application" (1997), section 3.8.
// REQUIRES: not empty; ratios > 0.
[[nodiscard]] Interval bootstrap_ratio(std::span<const PairedRatio> pairs,
                                       const BootstrapOptions& options = {});

// Two-sided, by random signs: how often the mean is at least as far from 1 if each pair might as
// well have been the other way round. All signs are tried for up to 14 pairs, so that few pairs
// cannot give a small value (three give 1/4 at least); otherwise `resamples` of them.
[[nodiscard]] double sign_flip_p_value(std::span<const PairedRatio> pairs,
                                       const BootstrapOptions& options = {});

// Holm's step-down correction for several comparisons, in the order of the arguments.
// Source: Holm, "A simple sequentially rejective multiple test procedure" (1979).
[[nodiscard]] std::vector<double> holm(std::span<const double> p_values);

// The value below which a share of the sorted values lies, interpolated. REQUIRES: not empty.
[[nodiscard]] double quantile_of_sorted(std::span<const double> sorted, double share);

struct Band {
  double at_s = 0;
  double mean = 0;
  double low = 0;
  double high = 0;
};

// Mean of several curves at their common times, with the interval of the mean (bootstrap over the
// curves). Curves end where the shortest ends.
[[nodiscard]] std::vector<Band> band_of(std::span<const std::vector<CurvePoint>> curves,
                                        const BootstrapOptions& options = {});

}  // namespace fedqueue::simulation
