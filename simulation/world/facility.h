// One simulated facility: the product's agent on its login node, driven step by step, a scheduler
// over a batch queue, and the processes of the jobs that run.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fedclient/agent/loop.h"
#include "fedclient/agent/machine.h"
#include "simulation/world/job.h"
#include "simulation/world/scheduler.h"

namespace fedqueue::simulation {

struct FacilitySetup {
  FacilityId id;
  RunId run;
  NetworkPath path;
  AgentSettings agent;        // its seed is the world's
  RetryPolicy session_retry;  // of a job's requests
  Duration session_reserve = std::chrono::seconds(30);
  double time_limit_s = 0;  // the site's; 0: none
  // How long processes whose node failed may go on before they notice.
  double linger_s = 120;
};

// Ends an agent at a step, as a kill does: before the step, or after what it did became visible
// outside and before the agent noted it.
class AgentFaults {
 public:
  enum class Fate { good, die_before, die_after };
  virtual ~AgentFaults() = default;
  virtual Fate fate(const FacilityId& facility, AgentMachine::Step step) = 0;
};

class Facility {
 public:
  struct Faults {
    SchedulerFaults* scheduler = nullptr;
    AgentFaults* agent = nullptr;
  };

  // What is given outlives the facility.
  Facility(Clock& clock, Network& network, FacilitySetup setup, BatchQueue& queue,
           SimTrainer& trainer, Witness& witness, std::uint64_t seed, Faults faults);
  ~Facility();

  // A new agent, on what the last one has stored. Nothing happens while one runs.
  void start_agent();
  void kill_agent();
  [[nodiscard]] bool agent_running() const { return agent_ != nullptr; }
  // How the last agent ended; nothing while it runs, or if it was killed.
  [[nodiscard]] const std::optional<int>& agent_exit() const { return agent_exit_; }
  // The login node's clock jumps forward.
  void jump(Duration forward) { jumped_ += forward; }
  // All running processes get the signal that says: finish.
  void interrupt_jobs(const std::string& reason);
  // A second launch of rank 0 within the same allocation; the first goes on, or is gone.
  void relaunch_job(QueueJobId number, bool first_goes_on);

  [[nodiscard]] const FacilitySetup& setup() const { return setup_; }
  [[nodiscard]] SimulatedScheduler& scheduler() { return scheduler_; }
  [[nodiscard]] std::size_t processes() const { return processes_.size(); }
  [[nodiscard]] std::size_t updates_left() const;

 private:
  struct Process {
    std::uint64_t number = 0;
    QueueJobId job = 0;
    int restart_count = 0;
    bool lingers = false;
    std::unique_ptr<SimulatedJob> running;
  };

  // --- jobs
  void launch(const ClusterJob& job);
  // What the server said of an update that a job left, or of one that it has sent.
  void settle_update(const std::string& token, const UpdateId& id, Disposition disposition);
  void stop(const ClusterJob& job, bool lingers);
  void over(std::uint64_t number, int exit_code);
  void end(std::uint64_t number);
  [[nodiscard]] JobRegistration registration_of(const ClusterJob& job, double limit_left_s);

  // --- the agent
  void pump();
  // False: the agent waits for something, or is over.
  bool perform(AgentMachine::Step step);
  void poll();
  void look_up();
  void submit();
  void inspect();
  void cancel();
  void ask_plan();
  void settle();
  void deliver_next(const std::string& token);
  void report_end();
  void settle_failed(const Error& error);
  void wait();
  void agent_over();
  [[nodiscard]] Instant agent_now() const { return clock_.now() + jumped_; }
  void soon(Duration delay, const char* what, std::function<void()> work);

  Clock& clock_;
  Network& network_;
  FacilitySetup setup_;
  SimTrainer& trainer_;
  Witness& witness_;
  Faults faults_;
  SimulatedScheduler scheduler_;
  Prng random_;
  AgentStore names_;  // of paths alone: nothing is stored on a disk
  AgentState stored_;
  std::unique_ptr<AgentMachine> agent_;
  Life agent_life_;
  std::unique_ptr<Sending> delivery_;
  int delivered_ = 0;
  std::optional<int> agent_exit_;
  Duration jumped_{};
  Clock::Ticket waking_ = 0;
  std::uint64_t last_process_ = 0;
  std::list<Process> processes_;
  // What jobs left on the facility's disk, by the token of their job.
  std::map<std::string, std::vector<OwnUpdate>> left_;
};

}  // namespace fedqueue::simulation
