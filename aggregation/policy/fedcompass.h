// FedCompass: facilities are given as many steps as let them arrive in groups.
//
// A facility whose pace is unknown is aggregated alone when it arrives. Then it joins the group in
// which it can run the most steps within [min, max] until the expected arrival, or opens one. A
// group is aggregated when all its members are in or its latest time has passed. Who comes later is
// answered at once, and its update goes into the next aggregation of a group.
//
//   w ← (1 − Σa)·w + Σ a_k·w_k,  a_k = α·s(τ_k)·share     mixing = models, as published
//
// The pace includes the wait in the queue of a job that was planned for the segment.
//
// Thread safety: immutable.
// Source: Li et al., FedCompass (ICLR 2024), and its reference code.
#pragma once

#include "aggregation/policy/policy.h"

namespace fedqueue {

class FedCompass final : public Policy {
 public:
  explicit FedCompass(const PolicyConfig& config) : Policy(config) {}

  [[nodiscard]] std::string_view name() const override { return "fedcompass"; }
  [[nodiscard]] bool pins_base_at_plan() const override { return false; }
  [[nodiscard]] bool answers_after_publish() const override { return true; }
  [[nodiscard]] bool holds_facility_until_publish() const override { return true; }
  [[nodiscard]] bool publishes_on_arrival() const override { return true; }
  [[nodiscard]] bool one_update_per_round() const override { return false; }
  [[nodiscard]] WorkPlan plan(const KnownFacility& self, std::span<const KnownFacility> all,
                              std::optional<double> time_limit_s, Version version) const override;
  [[nodiscard]] std::optional<GroupedWork> place(const KnownFacility& self,
                                                 std::span<const Group> groups,
                                                 std::int64_t next_group,
                                                 double now_s) const override;
  [[nodiscard]] Admission admit(const Arrival& arrival, const RoundState& round) const override;
  [[nodiscard]] CloseDecision should_close(const RoundState& round) const override;
  [[nodiscard]] Aggregation aggregate(const RoundState& round,
                                      std::span<const KnownFacility> senders,
                                      const Shares& shares) const override;
  // Nobody is waited for.
  [[nodiscard]] bool expects(double, double) const override { return false; }
};

}  // namespace fedqueue
