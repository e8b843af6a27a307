#include "simulation/world/scheduler.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace fedqueue::simulation {
namespace {

// Ended jobs are listed for so long, and known to the accounting for ever.
constexpr double listed_after_end_s = 300;

}  // namespace

SimulatedScheduler::SimulatedScheduler(Clock& clock, FacilityId facility, BatchQueue& queue,
                                       Witness& witness, Callbacks callbacks,
                                       SchedulerFaults* faults)
    : clock_(clock),
      facility_(std::move(facility)),
      queue_(queue),
      witness_(witness),
      callbacks_(std::move(callbacks)),
      faults_(faults) {}

std::optional<Error> SimulatedScheduler::begin(SchedulerFaults::Command command,
                                               SchedulerFate& fate) {
  if (faults_ != nullptr) fate = faults_->fate(facility_, command);
  took_s_ = fate.took_s;
  if (!fate.fail) return std::nullopt;
  return Error{*fate.fail, "the scheduler did not do it", ""};
}

Result<QueueJobId> SimulatedScheduler::enqueue(const JobRequest& request, double shown_after_s) {
  Result<QueueJobId> number = queue_.submit(request.time_limit_s, now_s());
  if (!number) return number;
  ClusterJob job;
  job.number = *number;
  job.request = request;
  job.submitted_s = now_s();
  job.shown_from_s = now_s() + shown_after_s;
  jobs_[*number] = job;
  clock_.tell(facility_.str(), "submitted job " + std::to_string(*number));
  witness_.on_job_submitted(facility_, request.token, std::to_string(*number));
  // Not before sbatch has returned.
  plan_advance();
  return number;
}

Result<JobHandle> SimulatedScheduler::submit(const JobRequest& request) {
  SchedulerFate fate;
  const std::optional<Error> failure = begin(SchedulerFaults::Command::submit, fate);
  if (failure && !fate.works_all_the_same) return *failure;
  const Result<QueueJobId> number = enqueue(request, fate.shown_after_s);
  if (failure) return *failure;
  if (!number) return number.error();
  return JobHandle{std::to_string(*number), ""};
}

JobView SimulatedScheduler::view(const ClusterJob& job) const {
  JobView view;
  view.handle.id = std::to_string(job.number);
  view.token = job.request.token;
  view.phase = job.phase;
  view.state = job.state;
  view.restart_count = job.restart_count;
  if (job.phase == JobPhase::queued) {
    view.expected_wait_s = queue_.expected_wait_s(job.number, now_s());
  }
  return view;
}

bool SimulatedScheduler::shown(const ClusterJob& job) const {
  if (now_s() < job.shown_from_s) return false;
  return job.phase != JobPhase::ended || now_s() - job.ended_s < listed_after_end_s;
}

Result<std::vector<JobView>> SimulatedScheduler::poll() {
  SchedulerFate fate;
  if (const auto failure = begin(SchedulerFaults::Command::poll, fate)) return *failure;
  std::vector<JobView> views;
  for (const auto& [number, job] : jobs_) {
    if (shown(job) && !fate.hides) views.push_back(view(job));
  }
  return views;
}

Result<std::optional<JobView>> SimulatedScheduler::find_by_token(const std::string& token) {
  SchedulerFate fate;
  if (const auto failure = begin(SchedulerFaults::Command::find, fate)) return *failure;
  if (fate.hides) return std::optional<JobView>();
  for (const auto& [number, job] : jobs_) {
    if (job.request.token == token && shown(job)) return std::optional(view(job));
  }
  return std::optional<JobView>();
}

Result<JobOutcome> SimulatedScheduler::outcome(const JobHandle& handle) {
  SchedulerFate fate;
  if (const auto failure = begin(SchedulerFaults::Command::outcome, fate)) return *failure;
  JobOutcome outcome;
  if (fate.hides) return outcome;
  for (const auto& [number, job] : jobs_) {
    if (std::to_string(number) != handle.id || now_s() < job.shown_from_s) continue;
    outcome = {true, job.phase, job.state, "exit code 0:0", job.restart_count};
  }
  return outcome;
}

Result<CancelReport> SimulatedScheduler::cancel(const std::vector<JobView>& wanted) {
  SchedulerFate fate;
  const std::optional<Error> failure = begin(SchedulerFaults::Command::cancel, fate);
  if (failure && !fate.works_all_the_same) return *failure;
  CancelReport report;
  for (const JobView& one : wanted) {
    for (auto& [number, job] : jobs_) {
      if (std::to_string(number) != one.handle.id) continue;
      if (job.request.token != one.token) {
        report.not_ours.push_back(one.handle.id);
        continue;
      }
      report.cancelled.push_back(one.handle.id);
      if (job.phase == JobPhase::ended) continue;
      queue_.cancel(number, now_s());
      stop(job, "CANCELLED", false);
    }
  }
  plan_advance();
  if (failure) return *failure;
  return report;
}

void SimulatedScheduler::over(ClusterJob& job, const char* state) {
  job.phase = JobPhase::ended;
  job.state = state;
  job.ended_s = now_s();
  clock_.tell(facility_.str(), "job " + std::to_string(job.number) + " over: " + state);
  witness_.on_job_over(facility_, std::to_string(job.number), state);
}

void SimulatedScheduler::stop(ClusterJob& job, const char* state, bool lingers) {
  const bool ran = job.phase == JobPhase::running;
  if (ran) callbacks_.stopped(job, lingers);
  over(job, state);
}

void SimulatedScheduler::processes_ended(QueueJobId number, bool good) {
  const auto found = jobs_.find(number);
  if (found == jobs_.end() || found->second.phase != JobPhase::running) return;
  queue_.finish(number, now_s());
  over(found->second, good ? "COMPLETED" : "FAILED");
  plan_advance();
}

void SimulatedScheduler::plan_advance() {
  clock_.cancel(advance_at_);
  advance_at_ = 0;
  const std::optional<double> next = queue_.next_event_s();
  if (!next) return;
  // Rounded up: an event must lie in the queue's past when it is fetched.
  const Instant at = Instant(from_seconds(*next) + Duration(1));
  advance_at_ = clock_.schedule(at, "queue", [this] { advance(); });
}

void SimulatedScheduler::advance() {
  for (const QueueChange& change : queue_.advance(now_s())) apply(change);
  plan_advance();
}

void SimulatedScheduler::apply(const QueueChange& change) {
  const auto found = jobs_.find(change.job);
  if (found == jobs_.end()) return;
  ClusterJob& job = found->second;
  switch (change.kind) {
    case QueueChange::Kind::started:
      job.phase = JobPhase::running;
      job.state = "RUNNING";
      job.started_s = change.at_s;
      clock_.tell(facility_.str(), "job " + std::to_string(job.number) + " starts");
      callbacks_.started(job);
      return;
    case QueueChange::Kind::ended_at_limit:
      return stop(job, "TIMEOUT", false);
    case QueueChange::Kind::preempted:
      return stop(job, "PREEMPTED", false);
    case QueueChange::Kind::cancelled:
      return stop(job, "CANCELLED", false);
    case QueueChange::Kind::requeued:
    case QueueChange::Kind::node_failed:
      callbacks_.stopped(job, change.kind == QueueChange::Kind::node_failed);
      job.phase = JobPhase::queued;
      job.state = "PENDING";
      job.submitted_s = change.at_s;
      ++job.restart_count;
      clock_.tell(facility_.str(), "job " + std::to_string(job.number) + " requeued");
      return;
  }
}

int SimulatedScheduler::live() const {
  return static_cast<int>(std::count_if(jobs_.begin(), jobs_.end(), [](const auto& entry) {
    return entry.second.phase != JobPhase::ended;
  }));
}

}  // namespace fedqueue::simulation
