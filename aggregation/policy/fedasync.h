// FedAsync: every update is applied when it arrives, and its facility then gets the new model.
//
//   w ← (1 − a)·w + a·w_k,  a = α·s(τ)·share       mixing = models, as published
//   w ← w + η·a·Δ_k                                mixing = deltas
//
// Updates that arrive while a version is being made are applied together, one after the other in
// the order of their names, each one version staler than the one before it.
//
// Thread safety: immutable.
// Source: Xie et al., arXiv 1903.03934; the shares 1/K and by samples are those of APPFL.
#pragma once

#include "aggregation/policy/policy.h"

namespace fedqueue {

class FedAsync final : public Policy {
 public:
  explicit FedAsync(const PolicyConfig& config) : Policy(config) {}

  [[nodiscard]] std::string_view name() const override { return "fedasync"; }
  [[nodiscard]] bool pins_base_at_plan() const override { return false; }
  [[nodiscard]] bool answers_after_publish() const override { return true; }
  [[nodiscard]] bool holds_facility_until_publish() const override { return true; }
  [[nodiscard]] bool publishes_on_arrival() const override { return true; }
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
