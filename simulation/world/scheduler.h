// The simulated scheduler behind the agent's port: sbatch, squeue, scancel over a BatchQueue, with
// the faults that make them lie.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fedclient/agent/scheduler.h"
#include "simulation/clock/clock.h"
#include "simulation/world/batch_queue.h"
#include "simulation/world/witness.h"

namespace fedqueue::simulation {

struct SchedulerFate {
  std::optional<Code> fail;         // the command's answer
  bool works_all_the_same = false;  // … although it did what it was asked
  bool hides = false;               // the answer leaves jobs out
  double took_s = 0.1;
  double shown_after_s = 0;  // submit: no listing shows the job before
};

class SchedulerFaults {
 public:
  enum class Command { submit, poll, find, outcome, cancel };
  virtual ~SchedulerFaults() = default;
  virtual SchedulerFate fate(const FacilityId& facility, Command command) = 0;
};

// A job as the cluster knows it.
struct ClusterJob {
  QueueJobId number = 0;
  JobRequest request;
  JobPhase phase = JobPhase::queued;
  std::string state = "PENDING";
  int restart_count = 0;
  double submitted_s = 0;  // or requeued
  double shown_from_s = 0;
  double started_s = 0;
  double ended_s = 0;
};

class SimulatedScheduler : public Scheduler {
 public:
  struct Callbacks {
    std::function<void(const ClusterJob&)> started;
    // `lingers`: its node failed, and its processes do not know yet.
    std::function<void(const ClusterJob&, bool lingers)> stopped;
  };

  // What is given outlives the scheduler.
  SimulatedScheduler(Clock& clock, FacilityId facility, BatchQueue& queue, Witness& witness,
                     Callbacks callbacks, SchedulerFaults* faults = nullptr);

  Result<JobHandle> submit(const JobRequest& request) override;
  Result<std::vector<JobView>> poll() override;
  Result<std::optional<JobView>> find_by_token(const std::string& token) override;
  Result<JobOutcome> outcome(const JobHandle& handle) override;
  Result<CancelReport> cancel(const std::vector<JobView>& jobs) override;

  // How long the last command took.
  [[nodiscard]] Duration took() const { return from_seconds(took_s_); }
  // The processes of a running job have ended by themselves.
  void processes_ended(QueueJobId number, bool good);
  // Something outside has changed the queue.
  void advance();

  [[nodiscard]] const std::map<QueueJobId, ClusterJob>& jobs() const { return jobs_; }
  // Jobs that are queued or running.
  [[nodiscard]] int live() const;

 private:
  Result<QueueJobId> enqueue(const JobRequest& request, double shown_after_s);
  void plan_advance();
  void apply(const QueueChange& change);
  void stop(ClusterJob& job, const char* state, bool lingers);
  void over(ClusterJob& job, const char* state);
  [[nodiscard]] JobView view(const ClusterJob& job) const;
  [[nodiscard]] bool shown(const ClusterJob& job) const;
  std::optional<Error> begin(SchedulerFaults::Command command, SchedulerFate& fate);
  [[nodiscard]] double now_s() const { return to_seconds(clock_.now().time_since_epoch()); }

  Clock& clock_;
  FacilityId facility_;
  BatchQueue& queue_;
  Witness& witness_;
  Callbacks callbacks_;
  SchedulerFaults* faults_;
  std::map<QueueJobId, ClusterJob> jobs_;
  Clock::Ticket advance_at_ = 0;
  double took_s_ = 0;
};

}  // namespace fedqueue::simulation
