#include "simulation/queues/site.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"

namespace fedqueue::simulation {

SimulatedSite::SimulatedSite(SiteConfig config, std::vector<BackgroundJob> background)
    : config_(config), background_(std::move(background)), free_(config.nodes) {
  FEDQUEUE_ASSERT(config.nodes >= 1);
}

Result<SiteJobId> SimulatedSite::submit(const SiteRequest& request, double now_s) {
  run_until(now_s);
  if (request.nodes < 1 || request.nodes > config_.nodes || !(request.limit_s > 0)) {
    return Error{Code::scheduler_refused,
                 "submit a job to the simulated site: it asks for " +
                     std::to_string(request.nodes) + " of " + std::to_string(config_.nodes) +
                     " nodes and " + std::to_string(request.limit_s) + " s",
                 "Ask for no more nodes than the site has, and a positive time limit."};
  }
  if (config_.limit_max_s && request.limit_s > *config_.limit_max_s) {
    return Error{Code::scheduler_refused,
                 "submit a job to the simulated site: the time limit of " +
                     std::to_string(request.limit_s) + " s is above the site's " +
                     std::to_string(*config_.limit_max_s) + " s",
                 "Ask for a shorter time limit."};
  }
  if (config_.submitted_jobs_max && own_live_ >= *config_.submitted_jobs_max) {
    return Error{Code::scheduler_limit,
                 "submit a job to the simulated site: " + std::to_string(own_live_) +
                     " jobs are queued or running, the limit per user is " +
                     std::to_string(*config_.submitted_jobs_max),
                 "Wait until one of them has ended."};
  }
  ++own_live_;
  const SiteJobId id = enqueue(request, now_s);
  schedule();
  return id;
}

SiteJobId SimulatedSite::enqueue(const SiteRequest& request, double submit_s) {
  const SiteJobId id = next_id_++;
  jobs_.emplace(id, Job{request, submit_s, submit_s, std::nullopt});
  if (config_.eligible_jobs_max && eligible_[request.user] >= *config_.eligible_jobs_max) {
    held_[request.user].push_back(id);
  } else {
    make_eligible(id, submit_s);
  }
  return id;
}

void SimulatedSite::make_eligible(SiteJobId id, double now_s) {
  Job& job = jobs_.at(id);
  job.eligible_s = now_s;
  queue_.insert({now_s - job.request.priority_bonus_s, id});
  ++eligible_[job.request.user];
}

void SimulatedSite::release_held(std::int64_t user, double now_s) {
  const auto held = held_.find(user);
  if (held == held_.end()) return;
  while (!held->second.empty() && eligible_[user] < *config_.eligible_jobs_max) {
    make_eligible(held->second.front(), now_s);
    held->second.pop_front();
  }
  if (held->second.empty()) held_.erase(held);
}

void SimulatedSite::start(SiteJobId id, bool backfilled) {
  Job& job = jobs_.at(id);
  queue_.erase({job.eligible_s - job.request.priority_bonus_s, id});
  --eligible_[job.request.user];
  free_ -= job.request.nodes;
  FEDQUEUE_ASSERT(free_ >= 0);
  job.start_s = now_s_;
  job.limit_end_s = now_s_ + job.request.limit_s;
  job.end_s = job.limit_end_s;
  if (job.request.run_s) job.end_s = std::min(job.end_s, now_s_ + *job.request.run_s);
  ends_.emplace(job.end_s, id);
  limit_ends_.emplace(job.limit_end_s, id);
  if (job.request.user == own_user) {
    own_starts_[id] = now_s_;
    changes_.push_back({id, SiteChange::Kind::started, now_s_});
  } else {
    ++use_.background_started;
    if (backfilled) ++use_.background_backfilled;
  }
  release_held(job.request.user, now_s_);
}

void SimulatedSite::end(SiteJobId id, SiteChange::Kind kind) {
  const auto found = jobs_.find(id);
  Job& job = found->second;
  ends_.erase({job.end_s, id});
  limit_ends_.erase({job.limit_end_s, id});
  free_ += job.request.nodes;
  const double used = static_cast<double>(job.request.nodes) * (now_s_ - *job.start_s);
  if (job.request.user == own_user) {
    use_.own_node_seconds += used;
    --own_live_;
    changes_.push_back({id, kind, now_s_});
  } else {
    use_.background_node_seconds += used;
  }
  jobs_.erase(found);
}

void SimulatedSite::finish(SiteJobId id, double now_s) {
  run_until(now_s);
  const auto found = jobs_.find(id);
  if (found == jobs_.end() || !found->second.start_s) return;
  end(id, SiteChange::Kind::ended);
  schedule();
}

void SimulatedSite::cancel(SiteJobId id, double now_s) {
  run_until(now_s);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  const Job& job = found->second;
  const std::int64_t user = job.request.user;
  if (job.start_s) {
    end(id, SiteChange::Kind::ended);
  } else {
    if (queue_.erase({job.eligible_s - job.request.priority_bonus_s, id}) > 0) {
      --eligible_[user];
    } else if (const auto held = held_.find(user); held != held_.end()) {
      std::erase(held->second, id);
    }
    if (user == own_user) --own_live_;
    changes_.push_back({id, SiteChange::Kind::ended, now_s_});
    jobs_.erase(found);
    release_held(user, now_s_);
  }
  schedule();
}

std::optional<double> SimulatedSite::next_internal_s() const {
  std::optional<double> next;
  if (!ends_.empty()) next = ends_.begin()->first;
  if (arrived_ < background_.size()) {
    const double arrival = background_[arrived_].submit_s;
    next = next ? std::min(*next, arrival) : arrival;
  }
  return next;
}

void SimulatedSite::run_until(double now_s) {
  for (std::optional<double> next = next_internal_s(); next && *next <= now_s;
       next = next_internal_s()) {
    now_s_ = std::max(now_s_, *next);
    while (!ends_.empty() && ends_.begin()->first <= now_s_) {
      const SiteJobId id = ends_.begin()->second;
      const Job& job = jobs_.at(id);
      const bool done = job.request.run_s && *job.request.run_s <= job.request.limit_s;
      end(id, done ? SiteChange::Kind::ended : SiteChange::Kind::killed_at_limit);
    }
    while (arrived_ < background_.size() && background_[arrived_].submit_s <= now_s_) {
      const BackgroundJob& job = background_[arrived_++];
      if (job.request.nodes <= config_.nodes) enqueue(job.request, now_s_);
    }
    schedule();
  }
  now_s_ = std::max(now_s_, now_s);
}

std::vector<SiteChange> SimulatedSite::advance(double now_s) {
  run_until(now_s);
  return std::exchange(changes_, {});
}

std::optional<double> SimulatedSite::next_event_s() const {
  if (!changes_.empty()) return now_s_;
  return next_internal_s();
}

void SimulatedSite::schedule() {
  while (!queue_.empty()) {
    const Rank head = *queue_.begin();
    if (jobs_.at(head.job).request.nodes > free_) {
      if (config_.backfill) backfill(head);
      return;
    }
    start(head.job, false);
  }
}

// When `nodes` are free if every running job uses its whole limit, and how many more are then.
std::pair<double, std::int64_t> SimulatedSite::reservation(std::int64_t nodes) const {
  std::int64_t available = free_;
  for (auto at = limit_ends_.begin(); at != limit_ends_.end(); ++at) {
    available += jobs_.at(at->second).request.nodes;
    const auto following = std::next(at);
    const bool more_now = following != limit_ends_.end() && following->first == at->first;
    if (available >= nodes && !more_now) return {at->first, available - nodes};
  }
  return {now_s_, available - nodes};
}

void SimulatedSite::backfill(const Rank& head) {
  auto [reserved_s, spare] = reservation(jobs_.at(head.job).request.nodes);
  // Copied, since starting a job changes the queue (and may release a held one, which then waits
  // for the next pass).
  std::vector<SiteJobId> candidates;
  for (auto at = std::next(queue_.begin()); at != queue_.end(); ++at) candidates.push_back(at->job);
  for (const SiteJobId id : candidates) {
    if (free_ == 0) return;
    const SiteRequest& request = jobs_.at(id).request;
    if (request.nodes > free_) continue;
    const bool ends_before = now_s_ + request.limit_s <= reserved_s;
    if (!ends_before && request.nodes > spare) continue;
    if (!ends_before) spare -= request.nodes;
    start(id, true);
  }
}

SiteUse SimulatedSite::use() const {
  SiteUse use = use_;
  for (const auto& [limit_end, id] : limit_ends_) {
    const Job& job = jobs_.at(id);
    const double used = static_cast<double>(job.request.nodes) * (now_s_ - *job.start_s);
    (job.request.user == own_user ? use.own_node_seconds : use.background_node_seconds) += used;
  }
  use.queued = static_cast<std::int64_t>(queue_.size());
  for (const auto& [user, held] : held_) use.queued += static_cast<std::int64_t>(held.size());
  return use;
}

std::optional<double> SimulatedSite::started_s(SiteJobId id) const {
  const auto found = own_starts_.find(id);
  return found == own_starts_.end() ? std::nullopt : std::optional<double>(found->second);
}

std::optional<double> SimulatedSite::expected_start_s(SiteJobId id) const {
  const auto wanted = jobs_.find(id);
  if (wanted == jobs_.end() || wanted->second.start_s) return std::nullopt;
  std::multimap<double, std::int64_t> releases;
  for (const auto& [at_s, job] : limit_ends_) releases.emplace(at_s, jobs_.at(job).request.nodes);
  std::int64_t available = free_;
  double at_s = now_s_;
  for (const Rank& rank : queue_) {
    const SiteRequest& request = jobs_.at(rank.job).request;
    while (available < request.nodes) {
      at_s = std::max(at_s, releases.begin()->first);
      available += releases.begin()->second;
      releases.erase(releases.begin());
    }
    if (rank.job == id) return at_s;
    available -= request.nodes;
    releases.emplace(at_s + request.limit_s, request.nodes);
  }
  return std::nullopt;  // held
}

}  // namespace fedqueue::simulation
