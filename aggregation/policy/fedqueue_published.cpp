#include "aggregation/policy/fedqueue_published.h"

#include <algorithm>

#include "aggregation/planning/work_budget.h"
#include "aggregation/policy/round_rules.h"
#include "aggregation/policy/round_selection.h"
#include "aggregation/policy/round_weights.h"

namespace fedqueue {
namespace {

double budget_s(const KnownFacility& facility, const PolicyConfig& config) {
  BudgetInput input;
  input.t_sync_s = config.t_sync_s;
  input.safety_s = *config.theta_s;
  input.predicted_wait_s = facility.predicted_wait_s ? facility.predicted_wait_s : config.q_init_s;
  return work_budget_s(BudgetRule::published, input);
}

std::int64_t assigned_steps(const KnownFacility& facility, const PolicyConfig& config) {
  return local_steps(budget_s(facility, config), facility.step_seconds, config.warm_up_steps);
}

}  // namespace

WorkPlan FedQueuePublished::plan(const KnownFacility& self, std::span<const KnownFacility> all,
                                 std::optional<double>, Version) const {
  WorkPlan plan;
  plan.budget_s = budget_s(self, config());
  plan.local_steps = assigned_steps(self, config());
  plan.learning_rate = config().lr_base;
  if (config().scale_learning_rate.value_or(true) && self.step_seconds) {
    std::vector<std::int64_t> known{plan.local_steps};
    for (const KnownFacility& other : all)
      if (other.id != self.id && other.step_seconds)
        known.push_back(assigned_steps(other, config()));
    plan.learning_rate = scaled_learning_rate(config().lr_base, steps_min(known), plan.local_steps);
  }
  plan.deadline_wait_s = admission_deadline_s(
      self.predicted_wait_s ? self.predicted_wait_s : config().q_init_s, config().alpha_admission,
      config().t_sync_s, unknown_wait_deadline_s(config()));
  return plan;
}

Admission FedQueuePublished::admit(const Arrival& arrival, const RoundState& round) const {
  std::string reason = reason_to_reject(arrival, round.version, staleness_cap(config()));
  if (!reason.empty()) return {Admission::Kind::reject, false, std::move(reason)};
  if (!arrival.queue_wait_s || *arrival.queue_wait_s <= arrival.deadline_wait_s)
    return {Admission::Kind::count, false, "counted"};
  return {Admission::Kind::buffer, true,
          "its job waited " + seconds_text(*arrival.queue_wait_s) + " s, longer than the " +
              seconds_text(arrival.deadline_wait_s) + " s allowed; it counts in a later round"};
}

CloseDecision FedQueuePublished::should_close(const RoundState& round) const {
  const std::int64_t in = facilities_in(round);
  const std::int64_t needed = std::max<std::int64_t>(1, config().quorum);
  const auto usable = static_cast<std::int64_t>(
      select_as_published(round, staleness_cap(config()), needed).used.size());
  if (usable < needed)
    return {false,
            std::to_string(usable) + " of at least " + std::to_string(needed) + " updates are in"};
  if (in >= round.enrolled) return {true, "all expected facilities are in"};
  if (round.timer_fired) return {true, "timer"};
  return {false,
          std::to_string(in) + " of " + std::to_string(round.enrolled) + " facilities are in"};
}

Aggregation FedQueuePublished::aggregate(const RoundState& round,
                                         std::span<const KnownFacility> senders,
                                         const Shares& shares) const {
  Aggregation result = weigh(select_as_published(round, staleness_cap(config()), config().quorum),
                             round.version, senders, shares, config());
  result.rebuild_models = true;
  result.unweighted_buffers = true;
  return result;
}

bool FedQueuePublished::expects(double, double) const { return true; }

}  // namespace fedqueue
