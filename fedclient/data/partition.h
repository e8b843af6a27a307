// Divides one dataset among facilities, evenly or as unevenly as real sites differ.
//
// Every sample goes to exactly one facility, every facility gets at least `samples_min`, and the
// same labels, count and seed give the same parts on every platform.
// Source of the Dirichlet partition: Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data
// Distribution for Federated Visual Classification" (2019), in the per-class form of Yurochkin et
// al. (2019): for each class, proportions over the facilities are drawn from Dirichlet(alpha).
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

// For each facility the indices of its samples, ascending.
using Partition = std::vector<std::vector<std::int64_t>>;

struct PartitionOptions {
  int facilities = 2;
  std::uint64_t seed = 1;
  // A facility below this takes samples, one at a time, from the facility with the most.
  std::int64_t samples_min = 1;
};

// Shuffled and cut into parts whose sizes differ by at most one.
Result<Partition> partition_evenly(std::int64_t samples, const PartitionOptions& options);

// Each class is shuffled and cut at proportions drawn from Dirichlet(alpha); a small alpha gives
// each facility few classes, a large one approaches the even partition.
Result<Partition> partition_dirichlet(std::span<const std::int32_t> labels, double alpha,
                                      const PartitionOptions& options);

// Sorted by label, cut into `shards` equal pieces per facility, and dealt at random: with two
// shards a facility sees two to four labels.
// Source: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized
// Data" (2017), section 3.
Result<Partition> partition_shards(std::span<const std::int32_t> labels, int shards,
                                   const PartitionOptions& options);

// A stream without labels, cut into one contiguous piece per facility, each at least `samples_min`
// long: piece k is [result[k], result[k + 1]). Equal pieces, or lengths in proportions drawn from
// Dirichlet(alpha).
// Source of the latter: Li et al., "Federated Learning on Non-IID Data Silos: An Experimental
// Study" (2022), section 4 (quantity skew).
Result<std::vector<std::int64_t>> partition_stream(std::int64_t length, std::optional<double> alpha,
                                                   const PartitionOptions& options);

}  // namespace fedqueue
