#include "simulation/statistics/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/base/assert.h"
#include "core/base/prng.h"

namespace fedqueue::simulation {
namespace {

using Clusters = std::vector<std::vector<double>>;  // logarithms by setting

Clusters clusters_of(std::span<const PairedRatio> pairs) {
  FEDQUEUE_ASSERT(!pairs.empty());
  std::map<std::size_t, std::vector<double>> by_setting;
  for (const PairedRatio& pair : pairs) {
    FEDQUEUE_ASSERT(pair.ratio > 0);
    by_setting[pair.setting].push_back(std::log(pair.ratio));
  }
  Clusters clusters;
  for (auto& [setting, values] : by_setting) clusters.push_back(std::move(values));
  return clusters;
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double mean_of(const Clusters& clusters) {
  double sum = 0;
  for (const auto& cluster : clusters) sum += mean_of(cluster);
  return sum / static_cast<double>(clusters.size());
}

double resampled_mean(std::span<const double> values, Prng& random) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[random.below(values.size())];
  return sum / static_cast<double>(values.size());
}

// Sorted logarithms of resampled geometric means.
std::vector<double> resampled(const Clusters& clusters, const BootstrapOptions& options) {
  FEDQUEUE_ASSERT(options.resamples > 0);
  Prng random(options.seed);
  std::vector<double> means(static_cast<std::size_t>(options.resamples));
  for (double& mean : means) {
    double sum = 0;
    for (std::size_t i = 0; i < clusters.size(); ++i) {
      sum += resampled_mean(clusters[random.below(clusters.size())], random);
    }
    mean = sum / static_cast<double>(clusters.size());
  }
  std::sort(means.begin(), means.end());
  return means;
}

}  // namespace

std::optional<double> time_to_target_s(std::span<const CurvePoint> curve, double target,
                                       int sustained) {
  FEDQUEUE_ASSERT(sustained >= 1);
  int run = 0;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    run = curve[i].accuracy >= target ? run + 1 : 0;
    if (run == sustained) return curve[i + 1 - static_cast<std::size_t>(sustained)].at_s;
  }
  return std::nullopt;
}

double node_seconds_at(std::span<const CurvePoint> curve, double at_s) {
  FEDQUEUE_ASSERT(!curve.empty());
  for (const CurvePoint& point : curve)
    if (point.at_s >= at_s) return point.node_seconds;
  return curve.back().node_seconds;
}

double geometric_mean(std::span<const double> values) {
  FEDQUEUE_ASSERT(!values.empty());
  double sum = 0;
  for (const double value : values) {
    FEDQUEUE_ASSERT(value > 0);
    sum += std::log(value);
  }
  return std::exp(sum / static_cast<double>(values.size()));
}

double quantile_of_sorted(std::span<const double> sorted, double share) {
  FEDQUEUE_ASSERT(!sorted.empty());
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Interval bootstrap_ratio(std::span<const PairedRatio> pairs, const BootstrapOptions& options) {
  const Clusters clusters = clusters_of(pairs);
  const std::vector<double> means = resampled(clusters, options);
  const double tail = (1 - options.confidence) / 2;
  return {std::exp(mean_of(clusters)), std::exp(quantile_of_sorted(means, tail)),
          std::exp(quantile_of_sorted(means, 1 - tail)), pairs.size(), clusters.size()};
}

double sign_flip_p_value(std::span<const PairedRatio> pairs, const BootstrapOptions& options) {
  constexpr std::size_t kExactPairs = 14;
  Clusters flipped = clusters_of(pairs);
  const Clusters observed = flipped;
  const double distance = std::abs(mean_of(observed)) * (1 - 1e-12);
  Prng random(options.seed);
  const bool exact = pairs.size() <= kExactPairs;
  const std::uint64_t trials =
      exact ? std::uint64_t{1} << pairs.size() : static_cast<std::uint64_t>(options.resamples);
  std::uint64_t as_far = 0;
  for (std::uint64_t trial = 0; trial < trials; ++trial) {
    std::uint64_t signs = trial;
    for (std::size_t c = 0; c < observed.size(); ++c) {
      for (std::size_t i = 0; i < observed[c].size(); ++i) {
        const bool negative = ((exact ? signs : random.next()) & 1) != 0;
        flipped[c][i] = negative ? -observed[c][i] : observed[c][i];
        signs >>= 1;
      }
    }
    as_far += std::abs(mean_of(flipped)) >= distance ? 1 : 0;
  }
  if (exact) return static_cast<double>(as_far) / static_cast<double>(trials);
  return static_cast<double>(as_far + 1) / static_cast<double>(trials + 1);
}

std::vector<double> holm(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> corrected(p_values.size());
  double largest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto remaining = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, remaining * p_values[order[rank]]));
    corrected[order[rank]] = largest;
  }
  return corrected;
}

std::vector<Band> band_of(std::span<const std::vector<CurvePoint>> curves,
                          const BootstrapOptions& options) {
  std::vector<Band> bands;
  if (curves.empty()) return bands;
  std::size_t length = curves.front().size();
  for (const auto& curve : curves) length = std::min(length, curve.size());
  const double tail = (1 - options.confidence) / 2;
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<double> values;
    for (const auto& curve : curves) values.push_back(curve[i].accuracy);
    Prng random(options.seed);
    std::vector<double> means(static_cast<std::size_t>(options.resamples));
    for (double& mean : means) mean = resampled_mean(values, random);
    std::sort(means.begin(), means.end());
    bands.push_back({curves.front()[i].at_s, mean_of(values), quantile_of_sorted(means, tail),
                     quantile_of_sorted(means, 1 - tail)});
  }
  return bands;
}

}  // namespace fedqueue::simulation
