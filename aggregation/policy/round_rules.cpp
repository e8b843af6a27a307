#include "aggregation/policy/round_rules.h"

#include <algorithm>
#include <cstdio>

#include "aggregation/planning/work_budget.h"
#include "aggregation/policy/round_selection.h"
#include "aggregation/policy/round_weights.h"

namespace fedqueue {

std::string seconds_text(double seconds) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f", seconds);
  return text;
}

Admission admit_by_arrival(const Arrival& arrival, const RoundState& round,
                           const PolicyConfig& config) {
  const std::optional<std::int64_t> cap = staleness_cap(config);
  std::string reason = reason_to_reject(arrival, round.version, cap);
  if (!reason.empty()) return {Admission::Kind::reject, false, std::move(reason)};
  if (holds_update_for_this_round(round, arrival.facility, cap))
    return {Admission::Kind::buffer, true,
            "the facility already has an update in this round; this one counts in the next"};
  const std::int64_t staleness = staleness_of(arrival, round.version);
  if (staleness > 0)
    return {Admission::Kind::count, true,
            "counted, " + std::to_string(staleness) + " versions behind the newest"};
  if (arrival.queue_wait_s && *arrival.queue_wait_s > arrival.deadline_wait_s)
    return {Admission::Kind::count, true,
            "counted; its job waited " + seconds_text(*arrival.queue_wait_s) +
                " s, longer than the " + seconds_text(arrival.deadline_wait_s) +
                " s it was expected within"};
  return {Admission::Kind::count, false, "counted"};
}

CloseDecision close_by_arrival(const RoundState& round, const PolicyConfig& config) {
  const RoundSelection selection = select_by_arrival(round, staleness_cap(config));
  const auto in = static_cast<std::int64_t>(selection.used.size());
  const std::int64_t needed = std::max<std::int64_t>(1, config.quorum);
  if (in < needed)
    return {false,
            std::to_string(in) + " of at least " + std::to_string(needed) + " updates are in"};
  const auto missing =
      std::count_if(round.outstanding.begin(), round.outstanding.end(),
                    [&](const FacilityId& facility) { return !has_used(selection, facility); });
  if (missing == 0) return {true, "all expected facilities are in"};
  if (round.timer_fired) return {true, "timer"};
  return {false, std::to_string(missing) + " expected facilities are not in yet"};
}

Aggregation aggregate_by_arrival(const RoundState& round, std::span<const KnownFacility> senders,
                                 const Shares& shares, const PolicyConfig& config) {
  return weigh(select_by_arrival(round, staleness_cap(config)), round.version, senders, shares,
               config);
}

WorkPlan plan_steps(std::int64_t steps, const KnownFacility& self,
                    std::optional<double> time_limit_s, const PolicyConfig& config) {
  WorkPlan plan;
  plan.local_steps = steps;
  const std::optional<std::int64_t> fitting =
      steps_within_limit(time_limit_s, walltime_margin_s(config, time_limit_s), self.step_seconds);
  if (fitting) plan.local_steps = std::min(plan.local_steps, *fitting);
  plan.learning_rate = config.lr_base;
  plan.budget_s = self.step_seconds && *self.step_seconds > 0
                      ? static_cast<double>(plan.local_steps) * *self.step_seconds
                      : config.t_sync_s;
  plan.deadline_wait_s = unknown_wait_deadline_s(config);
  return plan;
}

double walltime_margin_s(const PolicyConfig& config, std::optional<double> time_limit_s) {
  if (config.walltime_margin_s) return *config.walltime_margin_s;
  return std::min(60.0, std::max(0.0, time_limit_s.value_or(600.0)) / 10);
}

double unknown_wait_deadline_s(const PolicyConfig& config) {
  return config.t_sync_s * (1 + config.admission_tolerance);
}

}  // namespace fedqueue
