// FedAvg and its synchronous relatives: rounds that wait for the expected facilities, the same
// number of local steps for all. They differ in configuration alone:
//
//   fedavg      the weighted sum of the deltas is added
//   fedprox     the clients get a proximal term
//   fedavgm, fedadam, fedyogi, fedadagrad      a server step with state (server_step.h)
//   fednova     weights that undo different numbers of steps (normalised.h)
//   scaffold    the clients and the server keep control variates
//
// The baseline without any knowledge of queues. It adds the weighted deltas, which for updates of
// the newest version is the same as averaging models.
//
// Thread safety: immutable.
// Source: McMahan et al., arXiv 1602.05629; Li et al., 1812.06127 (FedProx); Hsu et al., 1909.06335
// (FedAvgM); Reddi et al., 2003.00295 (FedAdam, FedYogi, FedAdagrad); Wang et al., 2007.07481
// (FedNova); Karimireddy et al., 1910.06378 (SCAFFOLD).
#pragma once

#include "aggregation/policy/policy.h"

namespace fedqueue {

class FedAvg final : public Policy {
 public:
  explicit FedAvg(const PolicyConfig& config) : Policy(config) {}

  [[nodiscard]] std::string_view name() const override { return policy_kind_name(config().policy); }
  [[nodiscard]] bool pins_base_at_plan() const override { return false; }
  [[nodiscard]] bool answers_after_publish() const override { return true; }
  [[nodiscard]] bool waits_for_expected() const override { return true; }
  [[nodiscard]] bool holds_facility_until_publish() const override { return true; }
  [[nodiscard]] WorkPlan plan(const KnownFacility& self, std::span<const KnownFacility> all,
                              std::optional<double> time_limit_s, Version version) const override;
  [[nodiscard]] Admission admit(const Arrival& arrival, const RoundState& round) const override;
  [[nodiscard]] CloseDecision should_close(const RoundState& round) const override;
  [[nodiscard]] Aggregation aggregate(const RoundState& round,
                                      std::span<const KnownFacility> senders,
                                      const Shares& shares) const override;
  // However long its job waits: a synchronous round waits for everybody.
  [[nodiscard]] bool expects(double waited_s, double deadline_wait_s) const override;
};

}  // namespace fedqueue
