// FedQueue with the arithmetic and the event rules of its authors' reference code, so that its
// published numbers can be reproduced.
//
// Kept on purpose: weights by assigned steps, the cutoff on the queue wait instead of the arrival,
// late facilities held for a round, no staleness cap, waiting for all K facilities, E_min over all
// facilities ever seen. Mended, since they only crash or hang: an empty timer is armed again,
// failed jobs leave K, a newer update is not replaced by an older one, every staleness function
// works.
//
// Thread safety: immutable.
// Source: FedQueue (arXiv 2605.02125) and its reference code in APPFL.
#pragma once

#include "aggregation/policy/policy.h"

namespace fedqueue {

class FedQueuePublished final : public Policy {
 public:
  explicit FedQueuePublished(const PolicyConfig& config) : Policy(config) {}

  [[nodiscard]] std::string_view name() const override { return "fedqueue-published"; }
  [[nodiscard]] bool pins_base_at_plan() const override { return true; }
  [[nodiscard]] bool answers_after_publish() const override { return true; }
  [[nodiscard]] bool holds_facility_until_publish() const override { return true; }
  [[nodiscard]] WorkPlan plan(const KnownFacility& self, std::span<const KnownFacility> all,
                              std::optional<double> time_limit_s, Version version) const override;
  [[nodiscard]] Admission admit(const Arrival& arrival, const RoundState& round) const override;
  [[nodiscard]] CloseDecision should_close(const RoundState& round) const override;
  [[nodiscard]] Aggregation aggregate(const RoundState& round,
                                      std::span<const KnownFacility> senders,
                                      const Shares& shares) const override;
  // Always: the reference waits for as many arrivals as there are facilities.
  [[nodiscard]] bool expects(double waited_s, double deadline_wait_s) const override;
};

}  // namespace fedqueue
