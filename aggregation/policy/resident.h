// Resident segments: a job that has started keeps its allocation and exchanges short segments with
// the server until its time is over; the next job is submitted early and takes over.
//
// Deltas are applied on arrival, with weights by participation as a rate:
//
//   a_k = min(1, p_k·s(τ/K)/max(m_k, m_min)),  Σ a ≤ a_max      K: active facilities, τ/K ≤
//   staleness_max
//
// and an outer step (momentum 0.5 by default, scaled so that all steps that a delta causes sum to
// that delta). A segment is as short as keeps the exchange below a share of its time
// (segment_length.h). A facility is answered after its own publication, so that its next base holds
// its own delta.
//
// Thread safety: immutable.
// Source: own; weights from docs/policies.md.
#pragma once

#include "aggregation/policy/policy.h"

namespace fedqueue {

class Resident final : public Policy {
 public:
  explicit Resident(const PolicyConfig& config) : Policy(config) {}

  [[nodiscard]] std::string_view name() const override { return "resident"; }
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
