#include "aggregation/policy/round_weights.h"

#include <algorithm>

#include "aggregation/weighting/normalised.h"
#include "aggregation/weighting/participation.h"
#include "core/base/assert.h"

namespace fedqueue {
namespace {

// The base weights of the used updates, before staleness.
std::vector<double> base_weights(const std::vector<Arrival>& used, const Shares& enrolled,
                                 const PolicyConfig& config) {
  if (config.weights == WeightRule::steps) {
    std::vector<std::int64_t> steps;
    for (const Arrival& arrival : used)
      steps.push_back(config.is_published() ? arrival.steps_assigned : arrival.steps_run);
    return cap_shares(proportional_shares(steps), config.share_cap.value_or(1));
  }
  std::vector<double> shares;
  for (const Arrival& arrival : used) shares.push_back(enrolled.find(arrival.facility)->share);
  // Nobody here has data, though others have: equal weights rather than an empty round.
  if (std::all_of(shares.begin(), shares.end(), [](double share) { return share <= 0; }) &&
      config.weights != WeightRule::participation)
    return equal_shares(shares.size());
  return shares;
}

}  // namespace

SendersByName::SendersByName(std::span<const KnownFacility> senders) {
  senders_.reserve(senders.size());
  for (const KnownFacility& facility : senders) senders_.emplace(facility.id, &facility);
}

const KnownFacility& SendersByName::at(const FacilityId& facility) const {
  const auto found = senders_.find(facility);
  FEDQUEUE_ASSERT(found != senders_.end());
  return *found->second;
}

void add_server_step(Aggregation& aggregation, std::size_t enrolled, const PolicyConfig& config) {
  aggregation.step = config.server_step();
  if (config.control_variates.value_or(false) && enrolled > 0)
    aggregation.control_weight = 1.0 / static_cast<double>(enrolled);
}

Aggregation weigh(const RoundSelection& selection, Version version,
                  std::span<const KnownFacility> senders, const Shares& shares,
                  const PolicyConfig& config) {
  Aggregation result;
  result.kept_late = selection.kept_late;
  result.dropped = selection.dropped;
  const SendersByName by_name(senders);
  std::vector<Arrival> used;
  for (const Arrival& arrival : selection.used) {
    if (shares.find(arrival.facility) != nullptr)
      used.push_back(arrival);
    else
      result.dropped.push_back({arrival.id, "its facility is not enrolled any more"});
  }
  std::vector<double> weights = base_weights(used, shares, config);
  for (std::size_t i = 0; i < used.size(); ++i) {
    const Arrival& arrival = used[i];
    const std::int64_t staleness = staleness_of(arrival, version);
    const double factor = (*config.staleness_fn)(static_cast<double>(staleness));
    const double wait = wait_factor(config.wait_factor, config.wait_factor_beta,
                                    arrival.queue_wait_s, config.t_sync_s);
    weights[i] =
        config.weights == WeightRule::participation
            ? participation_weight(weights[i], factor * wait,
                                   by_name.at(arrival.facility).participation, config.m_min)
            : weights[i] * factor * wait;
    result.updates.push_back({arrival.id, arrival.facility, arrival.base, staleness, 0, factor});
  }
  if (config.weights == WeightRule::participation)
    limit_sum(weights, config.a_max);
  else
    normalise(weights);
  if (config.weights == WeightRule::nova) {
    std::vector<std::int64_t> steps;
    for (const Arrival& arrival : used) steps.push_back(arrival.steps_run);
    normalise_by_steps(weights, steps, {config.lr_base, config.local_momentum, *config.proximal});
  }
  // η_g belongs to rules that add deltas; the reference averages whole models, whose weights sum
  // to 1.
  const double step = config.is_published() ? 1 : *config.eta_global;
  for (std::size_t i = 0; i < used.size(); ++i) result.updates[i].weight = step * weights[i];
  add_server_step(result, shares.count(), config);
  return result;
}

}  // namespace fedqueue
