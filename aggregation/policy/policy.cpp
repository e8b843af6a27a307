#include "aggregation/policy/policy.h"

#include <algorithm>

#include "aggregation/policy/fedavg.h"
#include "aggregation/policy/fedqueue_corrected.h"
#include "aggregation/policy/fedqueue_published.h"
#include "aggregation/weighting/participation.h"
#include "core/base/assert.h"

namespace fedqueue {

std::optional<double> Policy::round_timer_s() const {
  if (config_.round_timer_s || config_.policy == PolicyKind::fedavg) return config_.round_timer_s;
  return config_.t_sync_s * (1 + config_.admission_tolerance);
}

double Policy::initial_participation(const KnownFacility& facility, double budget_s) const {
  return first_participation(config_.t_sync_s, config_.admission_tolerance,
                             facility.predicted_wait_s, budget_s);
}

double Policy::participation_after(const KnownFacility& facility,
                                   const Aggregation& aggregation) const {
  const auto counted =
      std::find_if(aggregation.updates.begin(), aggregation.updates.end(),
                   [&](const WeightedUpdate& update) { return update.facility == facility.id; });
  const double factor = counted == aggregation.updates.end() ? 0 : counted->staleness_factor;
  return update_participation(facility.participation, config_.gamma, factor);
}

std::unique_ptr<const Policy> make_policy(const PolicyConfig& config) {
  FEDQUEUE_ASSERT(config.validate());
  if (config.policy == PolicyKind::fedavg) return std::make_unique<FedAvg>(config);
  if (config.is_published()) return std::make_unique<FedQueuePublished>(config);
  return std::make_unique<FedQueueCorrected>(config);
}

}  // namespace fedqueue
