#include "simulation/federation/queues.h"

#include <algorithm>
#include <cmath>

#include "simulation/clock/streams.h"
#include "simulation/federation/site_queue.h"
#include "simulation/queues/background.h"

namespace fedqueue::simulation {
namespace {

// Each facility and seed begins at another place of the log: so long before its end that the
// horizon fits, or anywhere in one that is too short for that and is read again from its beginning.
double offset_in(const SwfLog& log, const Setting& setting, Prng& random) {
  const double span = log.jobs.back().submit_s - log.jobs.front().submit_s;
  const double needed = (setting.horizon_s + setting.site_warm_up_s) / setting.time_scale;
  return (span > needed ? span - needed : span) * random.uniform();
}

Result<std::unique_ptr<BatchQueue>> site_of(const Setting& setting, int facility,
                                            std::uint64_t seed, const Logs& logs) {
  Prng random = stream(seed, "site", static_cast<std::uint64_t>(facility));
  BackgroundOptions background;
  background.nodes = setting.site_nodes;
  background.time_scale = setting.time_scale;
  background.begin_s = -setting.site_warm_up_s;
  std::vector<BackgroundJob> jobs;
  if (setting.background == "trace") {
    const SwfLog& log = logs.at(setting.trace);
    background.offset_s = offset_in(log, setting, random);
    jobs = background_from_log(log, setting.horizon_s, background);
  } else {
    LoadModel model;
    model.load = setting.site_load;
    model.seed = random.next();
    jobs = background_from_model(model, setting.horizon_s, background);
  }
  SiteConfig config;
  config.nodes = setting.site_nodes;
  config.eligible_jobs_max = setting.eligible_jobs_max;
  auto site = std::make_unique<SimulatedSite>(config, std::move(jobs));
  (void)site->advance(0);
  return std::unique_ptr<BatchQueue>(
      std::make_unique<SiteQueue>(std::move(site), setting.job_nodes));
}

Result<std::shared_ptr<WaitSource>> waits_of(const Setting& setting, int facility,
                                             std::uint64_t seed, const Logs& logs) {
  const std::uint64_t own = stream_seed(seed, "waits", static_cast<std::uint64_t>(facility));
  switch (setting.world) {
    case WorldKind::lognormal:
      return std::shared_ptr<WaitSource>(std::make_shared<LogNormalWaits>(
          value_for(setting.queue_mean_s, facility), setting.queue_sigma, own));
    case WorldKind::fixed:
      return std::shared_ptr<WaitSource>(
          std::make_shared<FixedWaits>(value_for(setting.queue_fixed_s, facility)));
    case WorldKind::replay: {
      const SwfLog& log = logs.at(setting.trace);
      Prng random(own);
      ReplayOptions options;
      options.time_scale = setting.time_scale;
      options.offset_s = offset_in(log, setting, random);
      auto waits = ReplayedWaits::create(log, options);
      if (!waits) return waits.error();
      return std::shared_ptr<WaitSource>(std::move(*waits));
    }
    default:
      return std::shared_ptr<WaitSource>(std::make_shared<NoWaits>());
  }
}

}  // namespace

Result<std::unique_ptr<BatchQueue>> make_queue(const Setting& setting, int facility,
                                               std::uint64_t seed, const Logs& logs) {
  std::unique_ptr<BatchQueue> inner;
  if (setting.world == WorldKind::site) {
    Result<std::unique_ptr<BatchQueue>> site = site_of(setting, facility, seed, logs);
    if (!site) return site.error();
    inner = std::move(*site);
  } else {
    Result<std::shared_ptr<WaitSource>> waits = waits_of(setting, facility, seed, logs);
    if (!waits) return waits.error();
    inner = queue_of(std::move(*waits));
  }
  SiteRules rules;
  rules.jobs_max = setting.submitted_jobs_max;
  if (!setting.early_submission) rules.jobs_max = 1;
  rules.limit_max_s = setting.limit_max_s;
  rules.failure_rate = setting.failure_rate;
  return std::unique_ptr<BatchQueue>(std::make_unique<RuledQueue>(
      std::move(inner), rules,
      stream_seed(seed, "failures", static_cast<std::uint64_t>(facility))));
}

}  // namespace fedqueue::simulation
