#include "aggregation/weighting/base_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace fedqueue {
namespace {

double sum_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

std::vector<double> equal_shares(std::size_t count) {
  return std::vector<double>(count, count == 0 ? 0.0 : 1.0 / static_cast<double>(count));
}

std::vector<double> proportional_shares(std::span<const std::int64_t> amounts) {
  std::vector<double> shares;
  shares.reserve(amounts.size());
  for (const std::int64_t amount : amounts)
    shares.push_back(static_cast<double>(std::max<std::int64_t>(0, amount)));
  const double sum = sum_of(shares);
  if (!(sum > 0)) return equal_shares(amounts.size());
  for (double& share : shares) share /= sum;
  return shares;
}

std::vector<double> cap_shares(std::vector<double> shares, double cap) {
  // Facilities without any data cannot take over what others lose, so they do not count here.
  const auto holders = std::count_if(shares.begin(), shares.end(), [](double s) { return s > 0; });
  if (holders == 0) return shares;
  const double limit = std::max(cap, 2.0 / static_cast<double>(holders));
  std::vector<bool> capped(shares.size(), false);
  // Each pass fixes at least one more share, so this ends after at most as many passes.
  for (std::size_t pass = 0; pass < shares.size(); ++pass) {
    double excess = 0;
    double rest = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (!capped[i] && shares[i] > limit) {
        excess += shares[i] - limit;
        shares[i] = limit;
        capped[i] = true;
      }
      if (!capped[i]) rest += shares[i];
    }
    if (!(excess > 0) || !(rest > 0)) break;
    for (std::size_t i = 0; i < shares.size(); ++i)
      if (!capped[i]) shares[i] *= 1 + excess / rest;
  }
  return shares;
}

Result<WaitFactor> parse_wait_factor(std::string_view text) {
  if (text == "none") return WaitFactor::none;
  if (text == "harmonic") return WaitFactor::harmonic;
  return Error{Code::usage, "'" + std::string(text) + "' is not a queue-wait factor",
               "use none or harmonic"};
}

std::string_view wait_factor_name(WaitFactor factor) {
  return factor == WaitFactor::none ? "none" : "harmonic";
}

double wait_factor(WaitFactor factor, double beta, std::optional<double> wait_s, double t_sync_s) {
  if (factor == WaitFactor::none || !wait_s || !std::isfinite(*wait_s) || !(t_sync_s > 0)) return 1;
  return 1 / (1 + std::max(0.0, beta) * std::max(0.0, *wait_s) / t_sync_s);
}

void normalise(std::span<double> weights) {
  const double sum = sum_of(weights);
  if (!(sum > 0)) return;
  for (double& weight : weights) weight /= sum;
}

}  // namespace fedqueue
