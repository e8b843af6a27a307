#include "aggregation/policy/policy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "aggregation/policy/fedasync.h"
#include "aggregation/policy/fedavg.h"
#include "aggregation/policy/fedbuff.h"
#include "aggregation/policy/fedcompass.h"
#include "aggregation/policy/fedqueue_corrected.h"
#include "aggregation/policy/fedqueue_published.h"
#include "aggregation/policy/resident.h"
#include "aggregation/policy/round_selection.h"
#include "aggregation/weighting/participation.h"
#include "core/base/assert.h"

namespace fedqueue {

std::optional<double> Policy::round_timer_s() const {
  if (config_.round_timer_s || config_.policy != PolicyKind::fedqueue) return config_.round_timer_s;
  return config_.t_sync_s * (1 + config_.admission_tolerance);
}

bool Policy::plans_by_others() const { return config_.scale_learning_rate.value_or(false); }

bool Policy::may_submit_successor(double elapsed_s, std::optional<double> time_limit_s) const {
  const double share = config_.early_submission.value_or(-1);
  if (share < 0) return false;
  return !time_limit_s || elapsed_s >= share * *time_limit_s;
}

bool Policy::has_more_segments(std::int64_t segments_done) const {
  const std::int64_t most = config_.segments_per_job.value_or(1);
  return most == 0 || segments_done < most;
}

std::map<std::string, std::string> Policy::training_settings() const {
  std::map<std::string, std::string> settings;
  if (*config_.proximal > 0) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", *config_.proximal);
    settings["proximal"] = text;
  }
  if (*config_.control_variates) settings["control_variates"] = "1";
  return settings;
}

std::optional<std::int64_t> Policy::staleness_cap_versions(std::int64_t active) const {
  const std::optional<std::int64_t> cap = staleness_cap(config_);
  if (!cap || !publishes_on_arrival()) return cap;
  return *cap * std::max<std::int64_t>(1, active);
}

std::optional<GroupedWork> Policy::place(const KnownFacility&, std::span<const Group>, std::int64_t,
                                         double) const {
  return std::nullopt;
}

Shares Policy::shares(std::span<const Enrolment> enrolled) const {
  return Shares(enrolled, config_);
}

Aggregation Policy::aggregate(const RoundState& round,
                              std::span<const KnownFacility> enrolled) const {
  std::vector<Enrolment> enrolments;
  enrolments.reserve(enrolled.size());
  for (const KnownFacility& facility : enrolled)
    enrolments.push_back({facility.id, facility.samples});
  return aggregate(round, enrolled, shares(enrolments));
}

void Policy::limit_norms(Aggregation& aggregation, const RoundState& round) const {
  const double factor_max = *config_.norm_factor_max;
  // Where most updates are zero, as at the end of a schedule, nothing is said about the others.
  if (factor_max == 0 || !(round.usual_norm_per_step.value_or(0) > 0)) return;
  std::map<UpdateId, double> scales;
  for (const std::vector<Arrival>* list : {&round.counted, &round.late}) {
    for (const Arrival& arrival : *list) {
      const double longest = factor_max * *round.usual_norm_per_step *
                             static_cast<double>(std::max<std::int64_t>(1, arrival.steps_run));
      if (arrival.norm > longest) scales[arrival.id] = longest / arrival.norm;
    }
  }
  if (scales.empty()) return;
  for (WeightedUpdate& update : aggregation.updates) {
    const auto scale = scales.find(update.id);
    if (scale == scales.end()) continue;
    const double before = update.weight;
    update.weight *= scale->second;
    if (aggregation.rebuild_models) aggregation.keep += before - update.weight;
  }
}

double Policy::initial_participation(const KnownFacility& facility, double budget_s) const {
  if (publishes_on_arrival())
    return first_presence(facility.predicted_wait_s, budget_s, *config_.early_submission >= 0);
  return first_participation(config_.t_sync_s, config_.admission_tolerance,
                             facility.predicted_wait_s, budget_s);
}

double Policy::participation_after(const KnownFacility& facility,
                                   const Aggregation& aggregation) const {
  double factor = 0;
  const auto own =
      std::ranges::equal_range(aggregation.updates, facility.id, {}, &WeightedUpdate::facility);
  for (const WeightedUpdate& update : own) factor += update.staleness_factor;
  if (publishes_on_arrival())
    return participation_after_arrival(facility.participation, *config_.gamma,
                                       facility.windows_since_counted, factor);
  return update_participation(facility.participation, *config_.gamma, factor);
}

std::unique_ptr<const Policy> make_policy(const PolicyConfig& config) {
  FEDQUEUE_ASSERT(config.validate());
  switch (config.policy) {
    case PolicyKind::fedasync:
      return std::make_unique<FedAsync>(config);
    case PolicyKind::fedbuff:
      return std::make_unique<FedBuff>(config);
    case PolicyKind::fedcompass:
      return std::make_unique<FedCompass>(config);
    case PolicyKind::resident:
      return std::make_unique<Resident>(config);
    case PolicyKind::fedqueue:
      if (config.is_published()) return std::make_unique<FedQueuePublished>(config);
      return std::make_unique<FedQueueCorrected>(config);
    default:
      return std::make_unique<FedAvg>(config);
  }
}

}  // namespace fedqueue
