#include "simulation/federation/site_queue.h"

#include <algorithm>
#include <utility>

namespace fedqueue::simulation {
namespace {

// A scheduler without a limit of its own still has to plan with one.
constexpr double kUnlimited = 1e9;

}  // namespace

// --- SiteQueue

Result<QueueJobId> SiteQueue::submit(double limit_s, double now_s) {
  SiteRequest request;
  request.nodes = job_nodes_;
  request.limit_s = limit_s > 0 ? limit_s : kUnlimited;
  return site_->submit(request, now_s);
}

void SiteQueue::finish(QueueJobId job, double now_s) {
  told_.insert(job);
  site_->finish(job, now_s);
}

void SiteQueue::cancel(QueueJobId job, double now_s) {
  told_.insert(job);
  site_->cancel(job, now_s);
}

std::vector<QueueChange> SiteQueue::advance(double now_s) {
  std::vector<QueueChange> result;
  for (const SiteChange& change : site_->advance(now_s)) {
    if (change.kind == SiteChange::Kind::started) {
      result.push_back({change.job, QueueChange::Kind::started, change.at_s});
    } else if (change.kind == SiteChange::Kind::killed_at_limit && told_.count(change.job) == 0) {
      result.push_back({change.job, QueueChange::Kind::ended_at_limit, change.at_s});
    } else {
      told_.erase(change.job);
    }
  }
  return result;
}

std::optional<double> SiteQueue::next_event_s() const { return site_->next_event_s(); }

std::optional<double> SiteQueue::expected_wait_s(QueueJobId job, double now_s) const {
  const std::optional<double> start = site_->expected_start_s(job);
  if (!start) return std::nullopt;
  return std::max(0.0, *start - now_s);
}

// --- RuledQueue

Result<QueueJobId> RuledQueue::submit(double limit_s, double now_s) {
  if (rules_.limit_max_s && limit_s > *rules_.limit_max_s) {
    return Error{Code::scheduler_refused,
                 "submit a job: its time limit of " + std::to_string(limit_s) +
                     " s is above the site's " + std::to_string(*rules_.limit_max_s) + " s",
                 "Ask for a shorter time limit."};
  }
  if (rules_.jobs_max && static_cast<int>(limits_s_.size()) >= *rules_.jobs_max) {
    return Error{Code::scheduler_limit,
                 "submit a job: the site allows " + std::to_string(*rules_.jobs_max) +
                     " queued and running at a time",
                 "Wait until one has ended."};
  }
  const Result<QueueJobId> job = inner_->submit(limit_s, now_s);
  if (job) limits_s_[*job] = limit_s;
  return job;
}

void RuledQueue::over(QueueJobId job) {
  limits_s_.erase(job);
  std::erase_if(deaths_, [&](const auto& death) { return death.second == job; });
}

void RuledQueue::finish(QueueJobId job, double now_s) {
  over(job);
  inner_->finish(job, now_s);
}

void RuledQueue::cancel(QueueJobId job, double now_s) {
  over(job);
  inner_->cancel(job, now_s);
}

void RuledQueue::take(const std::vector<QueueChange>& changes, std::vector<QueueChange>& out) {
  for (const QueueChange& change : changes) {
    out.push_back(change);
    if (change.kind != QueueChange::Kind::started) {
      over(change.job);
      continue;
    }
    const auto limit = limits_s_.find(change.job);
    if (limit == limits_s_.end() || rules_.failure_rate <= 0) continue;
    if (random_.uniform() < rules_.failure_rate)
      deaths_.emplace(change.at_s + random_.uniform() * limit->second, change.job);
  }
}

// Event by event, since a job that starts on the way may also die on the way.
std::vector<QueueChange> RuledQueue::advance(double now_s) {
  std::vector<QueueChange> result;
  for (std::optional<double> next = next_event_s(); next && *next <= now_s; next = next_event_s()) {
    take(inner_->advance(*next), result);
    while (!deaths_.empty() && deaths_.begin()->first <= *next) {
      const auto [at_s, job] = *deaths_.begin();
      inner_->cancel(job, at_s);
      over(job);
      result.push_back({job, QueueChange::Kind::preempted, at_s});
    }
  }
  take(inner_->advance(now_s), result);
  return result;
}

std::optional<double> RuledQueue::next_event_s() const {
  std::optional<double> next = inner_->next_event_s();
  if (!deaths_.empty())
    next = std::min(next.value_or(deaths_.begin()->first), deaths_.begin()->first);
  return next;
}

std::unique_ptr<BatchQueue> queue_of(std::shared_ptr<WaitSource> waits) {
  return std::make_unique<DrawnQueue>(
      [waits = std::move(waits)](double submit_s) { return waits->next_wait_s(submit_s); });
}

}  // namespace fedqueue::simulation
