#include "aggregation/policy/shares.h"

#include <algorithm>
#include <vector>

#include "aggregation/weighting/base_weights.h"

namespace fedqueue {

Shares::Shares(std::span<const Enrolment> enrolled, const PolicyConfig& config) {
  std::vector<std::int64_t> samples;
  samples.reserve(enrolled.size());
  for (const Enrolment& one : enrolled) samples.push_back(one.samples);
  const std::vector<double> shares =
      cap_shares(config.weights == WeightRule::equal ? equal_shares(samples.size())
                                                     : proportional_shares(samples),
                 config.share_cap.value_or(1));
  shares_.reserve(enrolled.size());
  for (std::size_t i = 0; i < enrolled.size(); ++i) {
    const auto own = static_cast<double>(std::max<std::int64_t>(0, samples[i]));
    shares_[enrolled[i].facility] = {own, shares[i]};
    samples_ += own;
  }
}

const Shares::Of* Shares::find(const FacilityId& facility) const {
  const auto found = shares_.find(facility);
  return found == shares_.end() ? nullptr : &found->second;
}

}  // namespace fedqueue
