#include "aggregation/policy/round_weights.h"

#include <algorithm>
#include <map>

#include "aggregation/weighting/normalised.h"
#include "aggregation/weighting/participation.h"

namespace fedqueue {
namespace {

// The base weights of the used updates, before staleness.
std::vector<double> base_weights(const std::vector<Arrival>& used,
                                 const std::map<FacilityId, EnrolledShare>& enrolled,
                                 const PolicyConfig& config) {
  if (config.weights == WeightRule::steps) {
    std::vector<std::int64_t> steps;
    for (const Arrival& arrival : used)
      steps.push_back(config.is_published() ? arrival.steps_assigned : arrival.steps_run);
    return cap_shares(proportional_shares(steps), config.share_cap.value_or(1));
  }
  std::vector<double> shares;
  for (const Arrival& arrival : used) shares.push_back(enrolled.at(arrival.facility).share);
  // Nobody here has data, though others have: equal weights rather than an empty round.
  if (std::all_of(shares.begin(), shares.end(), [](double share) { return share <= 0; }) &&
      config.weights != WeightRule::participation)
    return equal_shares(shares.size());
  return shares;
}

}  // namespace

std::map<FacilityId, EnrolledShare> enrolled_shares(std::span<const KnownFacility> facilities,
                                                    const PolicyConfig& config) {
  std::vector<std::int64_t> samples;
  for (const KnownFacility& facility : facilities) samples.push_back(facility.samples);
  const std::vector<double> shares =
      cap_shares(config.weights == WeightRule::equal ? equal_shares(samples.size())
                                                     : proportional_shares(samples),
                 config.share_cap.value_or(1));
  std::map<FacilityId, EnrolledShare> enrolled;
  for (std::size_t i = 0; i < facilities.size(); ++i)
    enrolled[facilities[i].id] = {shares[i], &facilities[i]};
  return enrolled;
}

void add_server_step(Aggregation& aggregation, std::size_t enrolled, const PolicyConfig& config) {
  aggregation.step = config.server_step();
  if (config.control_variates.value_or(false) && enrolled > 0)
    aggregation.control_weight = 1.0 / static_cast<double>(enrolled);
}

Aggregation weigh(const RoundSelection& selection, Version version,
                  std::span<const KnownFacility> facilities, const PolicyConfig& config) {
  Aggregation result;
  result.kept_late = selection.kept_late;
  result.dropped = selection.dropped;
  const std::map<FacilityId, EnrolledShare> enrolled = enrolled_shares(facilities, config);
  std::vector<Arrival> used;
  for (const Arrival& arrival : selection.used) {
    if (enrolled.contains(arrival.facility))
      used.push_back(arrival);
    else
      result.dropped.push_back({arrival.id, "its facility is not enrolled any more"});
  }
  std::vector<double> weights = base_weights(used, enrolled, config);
  for (std::size_t i = 0; i < used.size(); ++i) {
    const Arrival& arrival = used[i];
    const std::int64_t staleness = staleness_of(arrival, version);
    const double factor = (*config.staleness_fn)(static_cast<double>(staleness));
    const double wait = wait_factor(config.wait_factor, config.wait_factor_beta,
                                    arrival.queue_wait_s, config.t_sync_s);
    weights[i] = config.weights == WeightRule::participation
                     ? participation_weight(weights[i], factor * wait,
                                            enrolled.at(arrival.facility).facility->participation,
                                            config.m_min)
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
  const double step = config.is_published() ? 1 : config.eta_global;
  for (std::size_t i = 0; i < used.size(); ++i) result.updates[i].weight = step * weights[i];
  add_server_step(result, facilities.size(), config);
  return result;
}

}  // namespace fedqueue
