// One facility's batch queue, as the simulated scheduler sees it: it decides when a job starts and
// what ends it from outside. Background load, backfill and logs are an implementation's own.
//
// Time is the caller's, in seconds, and never goes back. A queue acts only within its own calls;
// next_event_s() says when it will act next by itself.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/base/result.h"

namespace fedqueue::simulation {

using QueueJobId = std::int64_t;

struct QueueChange {
  enum class Kind {
    started,
    ended_at_limit,
    preempted,    // its processes are gone, it will not come back
    requeued,     // its processes are gone, it waits again
    node_failed,  // requeued, but its old processes may still run for a while
    cancelled,    // by the site
  };
  QueueJobId job = 0;
  Kind kind = Kind::started;
  double at_s = 0;
};

class BatchQueue {
 public:
  virtual ~BatchQueue() = default;
  // scheduler_refused for what can never run, scheduler_limit for "not now". No limit: 0.
  virtual Result<QueueJobId> submit(double limit_s, double now_s) = 0;
  // The job's processes have ended. No effect on a job that does not run.
  virtual void finish(QueueJobId job, double now_s) = 0;
  // No effect on a job that is over.
  virtual void cancel(QueueJobId job, double now_s) = 0;
  // Lets everything happen up to and including `now_s`; what happened since the last call, in
  // order.
  virtual std::vector<QueueChange> advance(double now_s) = 0;
  [[nodiscard]] virtual std::optional<double> next_event_s() const = 0;
  // The scheduler's own estimate for a queued job.
  [[nodiscard]] virtual std::optional<double> expected_wait_s(QueueJobId job, double now_s) const;
};

// A queue whose waits are drawn, one per job and launch, by a function of the time of submission.
// An infinite wait is a job that never starts.
class DrawnQueue : public BatchQueue {
 public:
  using Draw = std::function<double(double submit_s)>;

  explicit DrawnQueue(Draw draw) : draw_(std::move(draw)) {}

  Result<QueueJobId> submit(double limit_s, double now_s) override;
  void finish(QueueJobId job, double now_s) override;
  void cancel(QueueJobId job, double now_s) override;
  std::vector<QueueChange> advance(double now_s) override;
  [[nodiscard]] std::optional<double> next_event_s() const override;

  // What a site does to a running job, out of turn. No effect on one that does not run.
  void disturb(QueueJobId job, QueueChange::Kind kind, double now_s);
  // Jobs that would never have started wait as others do, from now on.
  void release_stuck(double now_s);
  [[nodiscard]] std::vector<QueueJobId> running() const;

 private:
  struct Job {
    double limit_s = 0;
    double starts_s = 0;
    std::optional<double> ends_s;  // at its limit; running jobs alone
    bool running = false;
  };

  Draw draw_;
  QueueJobId last_ = 10000;
  std::map<QueueJobId, Job> jobs_;
  std::vector<QueueChange> changes_;
};

}  // namespace fedqueue::simulation
