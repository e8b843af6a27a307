#include "fedclient/data/partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "core/base/prng.h"

namespace fedqueue {
namespace {

void shuffle(std::vector<std::int64_t>& items, Prng& prng) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[prng.below(i)]);
}

Status check(std::int64_t samples, const PartitionOptions& options) {
  if (options.facilities < 1) {
    return Error{Code::usage,
                 "split the dataset: " + std::to_string(options.facilities) +
                     " facilities asked for, at least one is needed",
                 "Give a positive number or a list of names with --facilities."};
  }
  const std::int64_t wanted = std::max<std::int64_t>(1, options.samples_min);
  if (samples / options.facilities < wanted) {
    return Error{Code::data,
                 "split the dataset: " + std::to_string(samples) + " samples cannot give " +
                     std::to_string(options.facilities) + " facilities at least " +
                     std::to_string(wanted) + " each",
                 "Use fewer facilities or a smaller --samples-min."};
  }
  return {};
}

// Proportions that sum to one. With a tiny alpha every draw can underflow to zero; the limit of the
// distribution is then all mass on one facility.
std::vector<double> draw_proportions(double alpha, int facilities, Prng& prng) {
  std::vector<double> proportions(static_cast<std::size_t>(facilities));
  for (double& value : proportions) value = prng.gamma(alpha);
  const double sum = std::accumulate(proportions.begin(), proportions.end(), 0.0);
  if (!(sum > 0)) {
    std::fill(proportions.begin(), proportions.end(), 0.0);
    proportions[prng.below(proportions.size())] = 1;
    return proportions;
  }
  for (double& value : proportions) value /= sum;
  return proportions;
}

void fill_small_parts(Partition& parts, std::int64_t samples_min) {
  const auto least = static_cast<std::size_t>(std::max<std::int64_t>(1, samples_min));
  for (auto& part : parts) {
    while (part.size() < least) {
      auto largest = std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
        return a.size() < b.size();
      });
      part.push_back(largest->back());
      largest->pop_back();
    }
  }
}

}  // namespace

Result<Partition> partition_evenly(std::int64_t samples, const PartitionOptions& options) {
  if (Status status = check(samples, options); !status) return status.error();
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Prng prng(options.seed);
  shuffle(order, prng);
  Partition parts;
  const std::int64_t count = options.facilities;
  for (std::int64_t k = 0; k < count; ++k) {
    parts.emplace_back(order.begin() + samples * k / count,
                       order.begin() + samples * (k + 1) / count);
    std::sort(parts.back().begin(), parts.back().end());
  }
  return parts;
}

Result<Partition> partition_dirichlet(std::span<const std::int32_t> labels, double alpha,
                                      const PartitionOptions& options) {
  const auto samples = static_cast<std::int64_t>(labels.size());
  if (Status status = check(samples, options); !status) return status.error();
  if (!std::isfinite(alpha) || alpha <= 0) {
    return Error{
        Code::usage,
        "split the dataset: alpha is " + std::to_string(alpha) + ", it must be a positive number",
        "Use for example --alpha 0.3, or --alpha iid for an even split."};
  }
  std::vector<std::vector<std::int64_t>> by_class(256);
  for (std::int64_t i = 0; i < samples; ++i)
    by_class[labels[static_cast<std::size_t>(i)]].push_back(i);

  Prng prng(options.seed);
  Partition parts(static_cast<std::size_t>(options.facilities));
  for (auto& members : by_class) {
    if (members.empty()) continue;
    shuffle(members, prng);
    const std::vector<double> proportions = draw_proportions(alpha, options.facilities, prng);
    double cumulative = 0;
    std::size_t begin = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      cumulative += proportions[k];
      const bool last = k + 1 == parts.size();
      const auto cut = static_cast<std::size_t>(cumulative * static_cast<double>(members.size()));
      const std::size_t end = last ? members.size() : std::clamp(cut, begin, members.size());
      parts[k].insert(parts[k].end(), members.begin() + static_cast<std::ptrdiff_t>(begin),
                      members.begin() + static_cast<std::ptrdiff_t>(end));
      begin = end;
    }
  }
  fill_small_parts(parts, options.samples_min);
  for (auto& part : parts) std::sort(part.begin(), part.end());
  return parts;
}

Result<Partition> partition_shards(std::span<const std::int32_t> labels, int shards,
                                   const PartitionOptions& options) {
  const auto samples = static_cast<std::int64_t>(labels.size());
  if (Status status = check(samples, options); !status) return status.error();
  const std::int64_t pieces = std::int64_t{shards} * options.facilities;
  if (shards < 1 || pieces > samples) {
    return Error{Code::usage,
                 "split the dataset: " + std::to_string(shards) + " shards for each of " +
                     std::to_string(options.facilities) + " facilities from " +
                     std::to_string(samples) + " samples",
                 "Use at least one shard per facility, and no more shards than samples."};
  }
  std::vector<std::int64_t> order(labels.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  Prng prng(options.seed);
  shuffle(order, prng);  // so that equal labels are in no particular order
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return labels[static_cast<std::size_t>(a)] < labels[static_cast<std::size_t>(b)];
  });
  std::vector<std::int64_t> dealt(static_cast<std::size_t>(pieces));
  std::iota(dealt.begin(), dealt.end(), std::int64_t{0});
  shuffle(dealt, prng);
  Partition parts(static_cast<std::size_t>(options.facilities));
  for (std::size_t i = 0; i < dealt.size(); ++i) {
    auto& part = parts[i / static_cast<std::size_t>(shards)];
    part.insert(part.end(), order.begin() + samples * dealt[i] / pieces,
                order.begin() + samples * (dealt[i] + 1) / pieces);
  }
  fill_small_parts(parts, options.samples_min);
  for (auto& part : parts) std::sort(part.begin(), part.end());
  return parts;
}

Result<std::vector<std::int64_t>> partition_stream(std::int64_t length, std::optional<double> alpha,
                                                   const PartitionOptions& options) {
  if (Status status = check(length, options); !status) return status.error();
  std::vector<double> proportions(static_cast<std::size_t>(options.facilities),
                                  1.0 / options.facilities);
  if (alpha) {
    Prng prng(options.seed);
    proportions = draw_proportions(*alpha, options.facilities, prng);
  }
  const std::int64_t least = std::max<std::int64_t>(1, options.samples_min);
  const std::int64_t spare = length - least * options.facilities;
  std::vector<std::int64_t> bounds = {0};
  double share = 0;
  for (int k = 1; k < options.facilities; ++k) {
    share += proportions[static_cast<std::size_t>(k - 1)];
    const auto taken = static_cast<std::int64_t>(std::min(share, 1.0) * static_cast<double>(spare));
    bounds.push_back(least * k + taken);
  }
  bounds.push_back(length);
  return bounds;
}

}  // namespace fedqueue
