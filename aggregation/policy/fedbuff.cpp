#include "aggregation/policy/fedbuff.h"

#include <algorithm>

#include "aggregation/policy/arrivals.h"
#include "aggregation/policy/round_rules.h"
#include "aggregation/policy/round_selection.h"
#include "aggregation/policy/round_weights.h"

namespace fedqueue {
namespace {

constexpr std::int64_t buffer_size_usual = 10;

std::int64_t buffer_size(const PolicyConfig& config, std::int64_t facilities) {
  if (config.buffer_size) return *config.buffer_size;
  return std::clamp<std::int64_t>(facilities, 1, buffer_size_usual);
}

}  // namespace

WorkPlan FedBuff::plan(const KnownFacility& self, std::span<const KnownFacility>,
                       std::optional<double> time_limit_s, Version) const {
  return plan_steps(config().local_steps, self, time_limit_s, config());
}

Admission FedBuff::admit(const Arrival& arrival, const RoundState& round) const {
  return admit_each(arrival, round, *this);
}

CloseDecision FedBuff::should_close(const RoundState& round) const {
  return close_at(buffer_size(config(), round.enrolled), round);
}

Aggregation FedBuff::aggregate(const RoundState& round, std::span<const KnownFacility>,
                               const Shares& shares) const {
  ArrivalPool pool = pool_arrivals(round, shares, *this);
  Aggregation result;
  result.dropped = std::move(pool.dropped);
  // The buffer holds the first K; what came while a version was being made waits for the next.
  const auto size = static_cast<std::size_t>(buffer_size(config(), round.enrolled));
  for (std::size_t i = size; i < pool.usable.size(); ++i)
    result.kept_late.push_back(pool.usable[i].id);
  pool.usable.resize(std::min(size, pool.usable.size()));
  sort_by_name(pool.usable);
  for (const Arrival& arrival : pool.usable) {
    const double factor =
        (*config().staleness_fn)(static_cast<double>(round.version - arrival.base));
    const double weight = *config().eta_global * factor / static_cast<double>(pool.usable.size());
    result.updates.push_back(weighted(arrival, round.version, weight, factor));
  }
  add_server_step(result, shares.count(), config());
  return result;
}

}  // namespace fedqueue
