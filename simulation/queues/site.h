// One simulated computing site: nodes, a queue, first come first served with EASY backfill, other
// people's jobs, and ours among them.
//
//   - The order of the queue is by priority, which grows with age alone: the job that has been
//     eligible longest is first, and a bonus counts as so many seconds of age.
//   - The head job that does not fit gets a reservation: the earliest time at which enough nodes
//     are free if every running job uses its whole time limit. A later job may start before it if
//     it fits now and either ends, by its limit, before that time, or uses nodes that the head job
//     will not need. So no backfilled job delays the head job's reservation.
//   - A job ends when its work is done or at its time limit, whatever comes first.
//   - Of one user at most `eligible_jobs_max` queued jobs gain age and may start; the others are
//     held until one of those starts. More than `submitted_jobs_max` are refused.
//
// Time is the caller's, in seconds, and never goes back. A site acts only in advance(), submit(),
// finish() and cancel(); next_event_s() says when it will act next by itself.
// Source: Lifka, "The ANL/IBM SP scheduling system" (1995), for EASY.
//
// Not thread-safe; distinct objects are independent.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace fedqueue::simulation {

using SiteJobId = std::int64_t;

inline constexpr std::int64_t own_user = -1;  // ours; background jobs have users ≥ 0

struct SiteConfig {
  std::int64_t nodes = 1;
  // Per user, background jobs included; nothing: no limit.
  std::optional<int> eligible_jobs_max;
  std::optional<int> submitted_jobs_max;  // queued and running, of our user alone
  std::optional<double> limit_max_s;      // longest time limit that is accepted
  bool backfill = true;
};

struct SiteRequest {
  std::int64_t nodes = 1;
  double limit_s = 0;  // > 0
  // How long the work takes; nothing: until finish() or the limit.
  std::optional<double> run_s;
  std::int64_t user = own_user;
  double priority_bonus_s = 0;
};

struct BackgroundJob {
  double submit_s = 0;
  SiteRequest request;
};

// What became of one of our jobs.
struct SiteChange {
  enum class Kind { started, ended, killed_at_limit };
  SiteJobId job = 0;
  Kind kind = Kind::started;
  double at_s = 0;
};

struct SiteUse {
  double own_node_seconds = 0;         // of our jobs, up to now
  double background_node_seconds = 0;  // of the others
  std::int64_t background_started = 0;
  std::int64_t background_backfilled = 0;  // of those, before a job of higher priority
  std::int64_t queued = 0;
};

class SimulatedSite {
 public:
  // Background jobs may lie before `begin_s`, so that the site is busy when we come: advance() runs
  // through them. REQUIRES: background in the order of submit_s; config.nodes ≥ 1.
  SimulatedSite(SiteConfig config, std::vector<BackgroundJob> background);

  // scheduler_refused for what can never run, scheduler_limit for "not now".
  Result<SiteJobId> submit(const SiteRequest& request, double now_s);
  // Our job's work is done. No effect on a job that does not run.
  void finish(SiteJobId job, double now_s);
  // Queued or running; no effect on a job that is over.
  void cancel(SiteJobId job, double now_s);

  // Lets everything happen up to and including `now_s`, and returns what happened to our jobs since
  // the last call, in order.
  std::vector<SiteChange> advance(double now_s);
  [[nodiscard]] std::optional<double> next_event_s() const;

  [[nodiscard]] std::int64_t free_nodes() const { return free_; }
  [[nodiscard]] SiteUse use() const;
  // When the job started; nothing while it is queued or unknown.
  [[nodiscard]] std::optional<double> started_s(SiteJobId job) const;
  // The scheduler's own estimate: the start if every running job uses its limit and the queue is
  // served in order without backfill. Nothing for a job that is not queued.
  [[nodiscard]] std::optional<double> expected_start_s(SiteJobId job) const;

 private:
  struct Job {
    SiteRequest request;
    double submit_s = 0;
    double eligible_s = 0;
    std::optional<double> start_s;
    double end_s = std::numeric_limits<double>::infinity();  // really, as far as known
    double limit_end_s = std::numeric_limits<double>::infinity();
  };
  struct Rank {        // place in the queue
    double key_s = 0;  // eligible − bonus: the smallest is first
    SiteJobId job = 0;
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  using Times = std::set<std::pair<double, SiteJobId>>;

  void run_until(double now_s);
  SiteJobId enqueue(const SiteRequest& request, double submit_s);
  void make_eligible(SiteJobId id, double now_s);
  void release_held(std::int64_t user, double now_s);
  void start(SiteJobId id, bool backfilled);
  void end(SiteJobId id, SiteChange::Kind kind);
  void schedule();
  void backfill(const Rank& head);
  [[nodiscard]] std::pair<double, std::int64_t> reservation(std::int64_t nodes) const;
  [[nodiscard]] std::optional<double> next_internal_s() const;

  SiteConfig config_;
  std::vector<BackgroundJob> background_;
  std::size_t arrived_ = 0;  // of background_
  double now_s_ = -std::numeric_limits<double>::infinity();
  std::int64_t free_ = 0;
  SiteJobId next_id_ = 1;
  std::map<SiteJobId, Job> jobs_;
  std::set<Rank> queue_;  // eligible ones
  std::map<std::int64_t, std::deque<SiteJobId>> held_;
  std::map<std::int64_t, int> eligible_;
  int own_live_ = 0;
  Times ends_;        // running jobs by real end
  Times limit_ends_;  // running jobs by the end of their limit
  std::map<SiteJobId, double> own_starts_;
  std::vector<SiteChange> changes_;
  SiteUse use_;
};

}  // namespace fedqueue::simulation
