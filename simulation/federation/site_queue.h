// Batch queues for simulated facilities, with the rules of their sites.
//
// SiteQueue puts our jobs into a simulated site (simulation/queues/site.h). RuledQueue adds what
// every site may have to any queue: a limit on jobs that are queued or running, a longest time
// limit, and jobs that die at a random moment. Jobs die as by preemption: their processes are gone
// and the job does not come back.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/base/prng.h"
#include "simulation/queues/site.h"
#include "simulation/queues/waits.h"
#include "simulation/world/batch_queue.h"

namespace fedqueue::simulation {

class SiteQueue final : public BatchQueue {
 public:
  // Each job asks for so many nodes.
  SiteQueue(std::unique_ptr<SimulatedSite> site, std::int64_t job_nodes)
      : site_(std::move(site)), job_nodes_(job_nodes) {}

  Result<QueueJobId> submit(double limit_s, double now_s) override;
  void finish(QueueJobId job, double now_s) override;
  void cancel(QueueJobId job, double now_s) override;
  std::vector<QueueChange> advance(double now_s) override;
  [[nodiscard]] std::optional<double> next_event_s() const override;
  [[nodiscard]] std::optional<double> expected_wait_s(QueueJobId job, double now_s) const override;

  [[nodiscard]] const SimulatedSite& site() const { return *site_; }

 private:
  std::unique_ptr<SimulatedSite> site_;
  std::int64_t job_nodes_;
  std::set<QueueJobId> told_;  // jobs whose end the caller knows already
};

struct SiteRules {
  std::optional<int> jobs_max;  // queued and running
  std::optional<double> limit_max_s;
  double failure_rate = 0;  // share of started jobs that die within their time limit
};

class RuledQueue final : public BatchQueue {
 public:
  RuledQueue(std::unique_ptr<BatchQueue> inner, const SiteRules& rules, std::uint64_t seed)
      : inner_(std::move(inner)), rules_(rules), random_(seed) {}

  Result<QueueJobId> submit(double limit_s, double now_s) override;
  void finish(QueueJobId job, double now_s) override;
  void cancel(QueueJobId job, double now_s) override;
  std::vector<QueueChange> advance(double now_s) override;
  [[nodiscard]] std::optional<double> next_event_s() const override;
  [[nodiscard]] std::optional<double> expected_wait_s(QueueJobId job, double now_s) const override {
    return inner_->expected_wait_s(job, now_s);
  }

 private:
  void over(QueueJobId job);
  void take(const std::vector<QueueChange>& changes, std::vector<QueueChange>& out);

  std::unique_ptr<BatchQueue> inner_;
  SiteRules rules_;
  Prng random_;
  std::map<QueueJobId, double> limits_s_;           // of live jobs
  std::set<std::pair<double, QueueJobId>> deaths_;  // of running ones
};

// A queue over waits that are drawn or replayed.
[[nodiscard]] std::unique_ptr<BatchQueue> queue_of(std::shared_ptr<WaitSource> waits);

}  // namespace fedqueue::simulation
