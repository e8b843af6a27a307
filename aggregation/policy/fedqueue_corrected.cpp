#include "aggregation/policy/fedqueue_corrected.h"

#include <algorithm>

#include "aggregation/planning/work_budget.h"
#include "aggregation/policy/round_rules.h"

namespace fedqueue {
namespace {

BudgetInput budget_input(const KnownFacility& facility, std::optional<double> time_limit_s,
                         const PolicyConfig& config) {
  return {config.t_sync_s,     *config.theta_s, facility.predicted_wait_s,
          facility.overhead_s, time_limit_s,    walltime_margin_s(config, time_limit_s)};
}

// Steps before the time limit of this very job, which says nothing about the other facilities.
std::int64_t wanted_steps(const KnownFacility& facility, const PolicyConfig& config) {
  return local_steps(
      work_budget_s(BudgetRule::corrected, budget_input(facility, std::nullopt, config)),
      facility.step_seconds, config.warm_up_steps);
}

double learning_rate(const KnownFacility& self, std::int64_t steps,
                     std::span<const KnownFacility> all, const PolicyConfig& config) {
  if (!config.scale_learning_rate.value_or(false) || !self.step_seconds) return config.lr_base;
  std::vector<std::int64_t> candidates{steps};
  for (const KnownFacility& other : all)
    if (other.id != self.id && other.active && other.step_seconds)
      candidates.push_back(wanted_steps(other, config));
  return scaled_learning_rate(config.lr_base, steps_min(candidates), steps);
}

}  // namespace

WorkPlan FedQueueCorrected::plan(const KnownFacility& self, std::span<const KnownFacility> all,
                                 std::optional<double> time_limit_s, Version) const {
  WorkPlan plan;
  plan.budget_s = work_budget_s(BudgetRule::corrected, budget_input(self, time_limit_s, config()));
  plan.local_steps = local_steps(plan.budget_s, self.step_seconds, config().warm_up_steps);
  // A warm-up that the scheduler would cut off is of no use to anybody.
  const std::optional<std::int64_t> fitting = steps_within_limit(
      time_limit_s, walltime_margin_s(config(), time_limit_s), self.step_seconds);
  if (fitting) plan.local_steps = std::min(plan.local_steps, *fitting);
  plan.learning_rate = learning_rate(self, plan.local_steps, all, config());
  plan.deadline_wait_s = admission_deadline_s(self.predicted_wait_s, config().alpha_admission,
                                              config().t_sync_s, unknown_wait_deadline_s(config()));
  return plan;
}

Admission FedQueueCorrected::admit(const Arrival& arrival, const RoundState& round) const {
  return admit_by_arrival(arrival, round, config());
}

CloseDecision FedQueueCorrected::should_close(const RoundState& round) const {
  return close_by_arrival(round, config());
}

Aggregation FedQueueCorrected::aggregate(const RoundState& round,
                                         std::span<const KnownFacility> senders,
                                         const Shares& shares) const {
  return aggregate_by_arrival(round, senders, shares, config());
}

bool FedQueueCorrected::expects(double waited_s, double deadline_wait_s) const {
  return waited_s <= deadline_wait_s;
}

}  // namespace fedqueue
