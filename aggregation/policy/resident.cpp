#include "aggregation/policy/resident.h"

#include <algorithm>

#include "aggregation/planning/segment_length.h"
#include "aggregation/policy/arrivals.h"
#include "aggregation/policy/round_rules.h"
#include "aggregation/policy/round_selection.h"
#include "aggregation/policy/round_weights.h"
#include "aggregation/weighting/participation.h"

namespace fedqueue {

WorkPlan Resident::plan(const KnownFacility& self, std::span<const KnownFacility>,
                        std::optional<double> time_limit_s, Version) const {
  const SegmentLimits limits{config().segment_steps, *config().segment_steps_min,
                             *config().segment_steps_max, config().sync_share_max};
  WorkPlan plan = plan_steps(segment_steps(self.sync_seconds, self.step_seconds, limits), self,
                             time_limit_s, config());
  plan.budget_s = time_limit_s.value_or(config().t_sync_s);  // the whole job trains
  return plan;
}

Admission Resident::admit(const Arrival& arrival, const RoundState& round) const {
  return admit_each(arrival, round, *this);
}

CloseDecision Resident::should_close(const RoundState& round) const { return close_at(1, round); }

Aggregation Resident::aggregate(const RoundState& round, std::span<const KnownFacility> senders,
                                const Shares& shares) const {
  ArrivalPool pool = pool_arrivals(round, shares, *this);
  sort_by_name(pool.usable);
  Aggregation result;
  result.dropped = std::move(pool.dropped);
  const SendersByName by_name(senders);
  const auto active = static_cast<double>(std::max<std::int64_t>(1, round.enrolled));
  std::vector<double> weights;
  for (const Arrival& arrival : pool.usable) {
    const KnownFacility& own = by_name.at(arrival.facility);
    const double factor =
        (*config().staleness_fn)(static_cast<double>(round.version - arrival.base) / active);
    const double participation = config().weights == WeightRule::participation
                                     ? participation_at_arrival(own.participation, *config().gamma,
                                                                own.windows_since_counted)
                                     : 1;
    // Never further than to the facility's own model.
    weights.push_back(std::min(
        1.0, *config().eta_global * participation_weight(shares.find(arrival.facility)->share,
                                                         factor, participation, config().m_min)));
    result.updates.push_back(weighted(arrival, round.version, 0, factor));
  }
  limit_sum(weights, config().a_max);
  for (std::size_t i = 0; i < weights.size(); ++i) result.updates[i].weight = weights[i];
  add_server_step(result, shares.count(), config());
  return result;
}

}  // namespace fedqueue
