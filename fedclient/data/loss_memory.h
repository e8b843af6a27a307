// How hard each sample has been, and how often it is drawn for that.
//
//   e ← memory·e + (1 − memory)·loss                 whenever a sample is seen, the first time its
//   loss p = (1 − floor)·e/Σe + floor/n                   of n samples; those not seen yet count as
//   the mean
//
// so that a sample comes at least `floor` times in an epoch, on average, and those that the model
// has not learnt, as of classes that the facility has few of, more often.
// Source: Loshchilov and Hutter, "Online Batch Selection for Faster Training of Neural Networks"
// (2016), sampling by the latest known loss; here in proportion to its running mean.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace fedqueue {

class LossMemory {
 public:
  LossMemory() = default;
  explicit LossMemory(std::int64_t samples) : means_(static_cast<std::size_t>(samples), kUnseen) {}
  // REQUIRES: what means() returned.
  explicit LossMemory(std::vector<float> means) : means_(std::move(means)) {}

  // REQUIRES: as many losses as samples, 0 <= memory < 1. Losses that are not finite are left out.
  void add(std::span<const std::int64_t> samples, std::span<const float> losses, double memory);

  // One for each sample, summing to 1. REQUIRES: 0 < floor <= 1.
  [[nodiscard]] std::vector<double> probabilities(double floor) const;
  // Negative: not seen.
  [[nodiscard]] const std::vector<float>& means() const { return means_; }
  [[nodiscard]] std::int64_t samples() const { return static_cast<std::int64_t>(means_.size()); }

 private:
  static constexpr float kUnseen = -1;
  std::vector<float> means_;
};

}  // namespace fedqueue
