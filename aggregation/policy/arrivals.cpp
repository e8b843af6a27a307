#include "aggregation/policy/arrivals.h"

#include <algorithm>

#include "aggregation/policy/round_selection.h"

namespace fedqueue {

ArrivalPool pool_arrivals(const RoundState& round, const Shares& shares, const Policy& policy) {
  ArrivalPool pool;
  const std::optional<std::int64_t> cap = policy.staleness_cap_versions(round.enrolled);
  for (const std::vector<Arrival>* list : {&round.late, &round.counted}) {
    for (const Arrival& arrival : *list) {
      std::string reason = reason_to_reject(arrival, round.version, cap);
      if (reason.empty() && shares.find(arrival.facility) == nullptr)
        reason = "its facility is not enrolled any more";
      if (reason.empty())
        pool.usable.push_back(arrival);
      else
        pool.dropped.push_back({arrival.id, std::move(reason)});
    }
  }
  return pool;
}

Admission admit_each(const Arrival& arrival, const RoundState& round, const Policy& policy) {
  std::string reason =
      reason_to_reject(arrival, round.version, policy.staleness_cap_versions(round.enrolled));
  if (!reason.empty()) return {Admission::Kind::reject, false, std::move(reason), false};
  const std::int64_t staleness = staleness_of(arrival, round.version);
  if (staleness == 0) return {Admission::Kind::count, false, "counted", false};
  return {Admission::Kind::count, false,
          "counted, " + std::to_string(staleness) + " versions behind the newest", false};
}

CloseDecision close_at(std::int64_t needed, const RoundState& round) {
  const auto in = static_cast<std::int64_t>(round.counted.size() + round.late.size());
  if (in >= std::max<std::int64_t>(1, needed))
    return {true, in == 1 ? "an update is in" : std::to_string(in) + " updates are in"};
  if (in > 0 && round.timer_fired) return {true, "timer"};
  return {false, std::to_string(in) + " of " + std::to_string(needed) + " updates are in"};
}

double client_factor(const FacilityId& facility, const Shares& shares, const PolicyConfig& config) {
  if (config.client_share == ClientShare::one || shares.count() == 0) return 1;
  const auto equal = 1 / static_cast<double>(shares.count());
  if (config.client_share == ClientShare::equal || !(shares.samples() > 0)) return equal;
  const Shares::Of* own = shares.find(facility);
  return own == nullptr ? 0 : own->samples / shares.samples();
}

WeightedUpdate weighted(const Arrival& arrival, Version version, double weight,
                        double staleness_factor) {
  return {arrival.id, arrival.facility, arrival.base, staleness_of(arrival, version),
          weight,     staleness_factor};
}

}  // namespace fedqueue
