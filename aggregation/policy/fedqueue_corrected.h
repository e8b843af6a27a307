// FedQueue as this project recommends it.
//
// Rounds close by arrival: the wait cutoff only decides for whom a round waits. Whatever arrives in
// an open round and is not too stale counts in it; a second update of a facility in one round is
// buffered for the next. Weights by participation undo the drift towards short queues. Facilities
// are answered at once and take the newest version when their job starts.
//
// Thread safety: immutable.
// Source: FedQueue (arXiv 2605.02125), with the defects of its reference code corrected.
#pragma once

#include "aggregation/policy/policy.h"

namespace fedqueue {

class FedQueueCorrected final : public Policy {
 public:
  explicit FedQueueCorrected(const PolicyConfig& config) : Policy(config) {}

  [[nodiscard]] std::string_view name() const override { return "fedqueue-corrected"; }
  [[nodiscard]] bool pins_base_at_plan() const override { return false; }
  [[nodiscard]] bool answers_after_publish() const override { return false; }
  [[nodiscard]] bool waits_for_expected() const override { return true; }
  [[nodiscard]] bool holds_facility_until_publish() const override { return false; }
  [[nodiscard]] WorkPlan plan(const KnownFacility& self, std::span<const KnownFacility> all,
                              std::optional<double> time_limit_s, Version version) const override;
  [[nodiscard]] Admission admit(const Arrival& arrival, const RoundState& round) const override;
  [[nodiscard]] CloseDecision should_close(const RoundState& round) const override;
  [[nodiscard]] Aggregation aggregate(const RoundState& round,
                                      std::span<const KnownFacility> senders,
                                      const Shares& shares) const override;
  // A job that waited longer than its deadline is not waited for, but counts when it arrives.
  [[nodiscard]] bool expects(double waited_s, double deadline_wait_s) const override;
};

}  // namespace fedqueue
