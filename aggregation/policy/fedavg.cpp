#include "aggregation/policy/fedavg.h"

#include <algorithm>

#include "aggregation/planning/work_budget.h"
#include "aggregation/policy/round_rules.h"

namespace fedqueue {

WorkPlan FedAvg::plan(const KnownFacility& self, std::span<const KnownFacility>,
                      std::optional<double> time_limit_s, Version) const {
  WorkPlan plan;
  plan.local_steps = config().local_steps;
  const std::optional<std::int64_t> fitting = steps_within_limit(
      time_limit_s, walltime_margin_s(config(), time_limit_s), self.step_seconds);
  if (fitting) plan.local_steps = std::min(plan.local_steps, *fitting);
  plan.learning_rate = config().lr_base;
  plan.budget_s = self.step_seconds && *self.step_seconds > 0
                      ? static_cast<double>(plan.local_steps) * *self.step_seconds
                      : config().t_sync_s;
  plan.deadline_wait_s = unknown_wait_deadline_s(config());
  return plan;
}

Admission FedAvg::admit(const Arrival& arrival, const RoundState& round) const {
  return admit_by_arrival(arrival, round, config());
}

CloseDecision FedAvg::should_close(const RoundState& round) const {
  return close_by_arrival(round, config());
}

Aggregation FedAvg::aggregate(const RoundState& round,
                              std::span<const KnownFacility> facilities) const {
  return aggregate_by_arrival(round, facilities, config());
}

bool FedAvg::expects(double, double) const { return true; }

}  // namespace fedqueue
