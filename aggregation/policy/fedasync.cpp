#include "aggregation/policy/fedasync.h"

#include <algorithm>

#include "aggregation/policy/arrivals.h"
#include "aggregation/policy/round_rules.h"
#include "aggregation/policy/round_selection.h"
#include "aggregation/policy/round_weights.h"

namespace fedqueue {

WorkPlan FedAsync::plan(const KnownFacility& self, std::span<const KnownFacility>,
                        std::optional<double> time_limit_s, Version) const {
  return plan_steps(config().local_steps, self, time_limit_s, config());
}

Admission FedAsync::admit(const Arrival& arrival, const RoundState& round) const {
  return admit_each(arrival, round, *this);
}

CloseDecision FedAsync::should_close(const RoundState& round) const { return close_at(1, round); }

Aggregation FedAsync::aggregate(const RoundState& round, std::span<const KnownFacility>,
                                const Shares& shares) const {
  ArrivalPool pool = pool_arrivals(round, shares, *this);
  sort_by_name(pool.usable);
  Aggregation result;
  result.dropped = std::move(pool.dropped);
  const bool mixes = config().mixing == Mixing::models;
  double later = 1;  // what the ones applied afterwards leave of this one
  for (std::size_t i = pool.usable.size(); i-- > 0;) {
    const Arrival& arrival = pool.usable[i];
    const double staleness =
        static_cast<double>(round.version - arrival.base) + static_cast<double>(i);
    const double factor = (*config().staleness_fn)(staleness);
    const double a = *config().alpha * factor * client_factor(arrival.facility, shares, config());
    const double weight = mixes ? a * later : *config().eta_global * a;
    result.updates.push_back(weighted(arrival, round.version, weight, factor));
    later *= 1 - a;
  }
  std::reverse(result.updates.begin(), result.updates.end());
  result.rebuild_models = mixes;
  if (mixes) result.keep = later;
  add_server_step(result, shares.count(), config());
  return result;
}

}  // namespace fedqueue
