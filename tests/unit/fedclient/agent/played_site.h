// A batch system and a federation server that keep what they are told, for tests of the agent. Time
// is a number that the test moves.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/prng.h"
#include "fedclient/agent/loop.h"

namespace fedqueue::test {

struct PlayedJob {
  JobView view;
  bool shown = true;
};

class PlayedScheduler : public Scheduler {
 public:
  std::vector<PlayedJob> jobs;
  int submissions = 0;
  int polls = 0;
  int cancels = 0;
  bool blind = false;                      // never shows a job, knows of none
  std::optional<Error> submit_error;       // the answer to a submission
  bool submit_works_all_the_same = false;  // … although the job is there
  std::optional<Error> poll_error;
  std::vector<std::size_t> cancel_sizes;

  Result<JobHandle> submit(const JobRequest& request) override {
    ++submissions;
    if (!submit_error || submit_works_all_the_same) {
      PlayedJob job;
      job.view.handle.id = std::to_string(10000 + submissions);
      job.view.token = request.token;
      job.view.phase = JobPhase::queued;
      job.view.state = "PENDING";
      jobs.push_back(job);
    }
    if (submit_error) return *submit_error;
    return jobs.back().view.handle;
  }
  Result<std::vector<JobView>> poll() override {
    ++polls;
    if (poll_error) return *poll_error;
    std::vector<JobView> views;
    for (const PlayedJob& job : jobs) {
      if (job.shown && !blind) views.push_back(job.view);
    }
    return views;
  }
  Result<std::optional<JobView>> find_by_token(const std::string& token) override {
    if (poll_error) return *poll_error;
    for (const PlayedJob& job : jobs) {
      if (job.view.token == token && job.shown && !blind) return std::optional(job.view);
    }
    return std::optional<JobView>();
  }
  Result<JobOutcome> outcome(const JobHandle& handle) override {
    JobOutcome outcome;
    if (blind) return outcome;
    for (const PlayedJob& job : jobs) {
      if (job.view.handle == handle && job.shown) {
        outcome = {true, job.view.phase, job.view.state, "exit code 0:0", job.view.restart_count};
      }
    }
    return outcome;
  }
  Result<CancelReport> cancel(const std::vector<JobView>& wanted) override {
    ++cancels;
    cancel_sizes.push_back(wanted.size());
    CancelReport report;
    for (const JobView& view : wanted) {
      for (PlayedJob& job : jobs) {
        if (job.view.handle == view.handle && job.view.token == view.token) {
          report.cancelled.push_back(view.handle.id);
          if (job.view.phase != JobPhase::ended) end(job, "CANCELLED");
        }
      }
    }
    return report;
  }

  static void end(PlayedJob& job, const std::string& state) {
    job.view.phase = JobPhase::ended;
    job.view.state = state;
  }
  void start(PlayedJob& job) {
    job.view.phase = JobPhase::running;
    job.view.state = "RUNNING";
  }
  [[nodiscard]] int live() const {
    return static_cast<int>(std::count_if(jobs.begin(), jobs.end(), [](const PlayedJob& job) {
      return job.view.phase != JobPhase::ended;
    }));
  }
};

// Wants one job at a time, the next when there is none.
class PlayedServer : public AgentServer {
 public:
  PlanAnswer::Verb verb = PlanAnswer::Verb::submit;
  std::optional<Error> plan_error;
  std::optional<Error> end_error;
  std::vector<PlanRequest> requests;
  std::map<std::string, JobEnd> ends;  // by attempt
  int jobs_wanted = 1;

  Result<PlanAnswer> plan(const PlanRequest& request) override {
    requests.push_back(request);
    if (plan_error) return *plan_error;
    PlanAnswer answer;
    answer.verb = verb;
    answer.reason = "because";
    answer.key = request.key;
    answer.retry_after_s = 30;
    answer.time_limit_s = 600;
    if (verb == PlanAnswer::Verb::submit &&
        request.pending_jobs + request.running_jobs >= jobs_wanted) {
      answer.verb = PlanAnswer::Verb::wait;
    }
    return answer;
  }
  int left_behind = 0;  // updates found beside every ended job, and taken
  Result<int> deliver(const std::filesystem::path&) override { return left_behind; }
  Status end_job(const AttemptId& attempt, const JobEnd& end) override {
    if (end_error) return *end_error;
    ends[attempt.str()] = end;
    return {};
  }
};

// Performs one step of the machine as the loop would; `stored` is the disk.
class Stepper {
 public:
  PlayedScheduler scheduler;
  PlayedServer server;
  AgentState stored;
  Instant now{};

  // The step that was performed.
  AgentMachine::Step once(AgentMachine& machine) {
    const AgentMachine::Step step = machine.step(now);
    perform(machine, step);
    return step;
  }
  void perform(AgentMachine& machine, AgentMachine::Step step);
  // Until the machine waits or is over.
  void settle(AgentMachine& machine) {
    for (int steps = 0; steps < 1000; ++steps) {
      const AgentMachine::Step step = machine.step(now);
      if (step == AgentMachine::Step::wait || step == AgentMachine::Step::over) return;
      perform(machine, step);
    }
    FEDQUEUE_ASSERT(!"the machine comes to rest");
  }
  // To the next time at which the machine wants something, at most `longest` ahead.
  void advance(AgentMachine& machine, Duration longest = std::chrono::hours(1)) {
    settle(machine);
    const bool waits = machine.step(now) == AgentMachine::Step::wait;
    now = waits ? std::min(machine.wake_at(), now + longest) : now + longest;
    settle(machine);
  }
  // Everything that happens within this time.
  void run_for(AgentMachine& machine, Duration time) {
    const Instant end = now + time;
    settle(machine);
    while (now < end) advance(machine, end - now);
  }
};

}  // namespace fedqueue::test
