#include "aggregation/policy/fedavg.h"

#include "aggregation/policy/round_rules.h"

namespace fedqueue {

WorkPlan FedAvg::plan(const KnownFacility& self, std::span<const KnownFacility>,
                      std::optional<double> time_limit_s, Version) const {
  return plan_steps(config().local_steps, self, time_limit_s, config());
}

Admission FedAvg::admit(const Arrival& arrival, const RoundState& round) const {
  return admit_by_arrival(arrival, round, config());
}

CloseDecision FedAvg::should_close(const RoundState& round) const {
  return close_by_arrival(round, config());
}

Aggregation FedAvg::aggregate(const RoundState& round, std::span<const KnownFacility> senders,
                              const Shares& shares) const {
  return aggregate_by_arrival(round, senders, shares, config());
}

bool FedAvg::expects(double, double) const { return true; }

}  // namespace fedqueue
