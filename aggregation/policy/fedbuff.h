// FedBuff: a version is made of every K updates, whoever sent them; facilities are answered at
// once.
//
//   w ← w + η/K · Σ s(τ_i)·Δ_i
//
// Thread safety: immutable.
// Source: Nguyen et al., arXiv 2106.06639.
#pragma once

#include "aggregation/policy/policy.h"

namespace fedqueue {

class FedBuff final : public Policy {
 public:
  explicit FedBuff(const PolicyConfig& config) : Policy(config) {}

  [[nodiscard]] std::string_view name() const override { return "fedbuff"; }
  [[nodiscard]] bool pins_base_at_plan() const override { return false; }
  [[nodiscard]] bool answers_after_publish() const override { return false; }
  [[nodiscard]] bool holds_facility_until_publish() const override { return false; }
  [[nodiscard]] bool publishes_on_arrival() const override { return false; }
  [[nodiscard]] bool one_update_per_round() const override { return false; }
  [[nodiscard]] WorkPlan plan(const KnownFacility& self, std::span<const KnownFacility> all,
                              std::optional<double> time_limit_s, Version version) const override;
  [[nodiscard]] Admission admit(const Arrival& arrival, const RoundState& round) const override;
  [[nodiscard]] CloseDecision should_close(const RoundState& round) const override;
  [[nodiscard]] Aggregation aggregate(const RoundState& round,
                                      std::span<const KnownFacility> senders,
                                      const Shares& shares) const override;
  // Nobody is waited for.
  [[nodiscard]] bool expects(double, double) const override { return false; }
};

}  // namespace fedqueue
