#include "simulation/world/batch_queue.h"

#include <cmath>
#include <limits>

namespace fedqueue::simulation {

std::optional<double> BatchQueue::expected_wait_s(QueueJobId, double) const { return std::nullopt; }

Result<QueueJobId> DrawnQueue::submit(double limit_s, double now_s) {
  Job job;
  job.limit_s = limit_s;
  job.starts_s = now_s + draw_(now_s);
  jobs_[++last_] = job;
  return last_;
}

void DrawnQueue::finish(QueueJobId id, double) {
  const auto job = jobs_.find(id);
  if (job != jobs_.end() && job->second.running) jobs_.erase(job);
}

void DrawnQueue::cancel(QueueJobId id, double) { jobs_.erase(id); }

std::vector<QueueChange> DrawnQueue::advance(double now_s) {
  for (;;) {
    // The earliest change that is due; of several at one time, of the oldest job.
    auto due = jobs_.end();
    double at_s = now_s;
    for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
      const double next = job->second.running
                              ? job->second.ends_s.value_or(std::numeric_limits<double>::infinity())
                              : job->second.starts_s;
      if (next < at_s || (next == at_s && due == jobs_.end())) {
        due = job;
        at_s = next;
      }
    }
    if (due == jobs_.end()) break;
    Job& job = due->second;
    if (job.running) {
      changes_.push_back({due->first, QueueChange::Kind::ended_at_limit, at_s});
      jobs_.erase(due);
    } else {
      job.running = true;
      if (job.limit_s > 0) job.ends_s = at_s + job.limit_s;
      changes_.push_back({due->first, QueueChange::Kind::started, at_s});
    }
  }
  return std::exchange(changes_, {});
}

std::optional<double> DrawnQueue::next_event_s() const {
  std::optional<double> next;
  for (const auto& [id, job] : jobs_) {
    const std::optional<double> at = job.running ? job.ends_s : std::optional(job.starts_s);
    if (!at || !std::isfinite(*at)) continue;
    next = next ? std::min(*next, *at) : *at;
  }
  return next;
}

void DrawnQueue::disturb(QueueJobId id, QueueChange::Kind kind, double now_s) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || !found->second.running) return;
  changes_.push_back({id, kind, now_s});
  if (kind != QueueChange::Kind::requeued && kind != QueueChange::Kind::node_failed) {
    jobs_.erase(found);
    return;
  }
  found->second.running = false;
  found->second.ends_s.reset();
  found->second.starts_s = now_s + draw_(now_s);
}

void DrawnQueue::release_stuck(double now_s) {
  for (auto& [id, job] : jobs_) {
    if (!job.running && !std::isfinite(job.starts_s)) job.starts_s = now_s + draw_(now_s);
  }
}

std::vector<QueueJobId> DrawnQueue::running() const {
  std::vector<QueueJobId> ids;
  for (const auto& [id, job] : jobs_) {
    if (job.running) ids.push_back(id);
  }
  return ids;
}

}  // namespace fedqueue::simulation
