// The faults of one seed, behind the ports of a simulated world, each kind with a random stream of
// its own. stop() ends them all; what they have left behind stays.
//
// Not thread-safe.
#pragma once

#include <cmath>

#include "simulation/check/scenario.h"
#include "simulation/world/world.h"

namespace fedqueue::simulation {

class Faults : public DiskFaults, public NetworkFaults, public SchedulerFaults, public AgentFaults {
 public:
  explicit Faults(const Scenario& scenario);

  void stop() { active_ = false; }
  [[nodiscard]] bool active() const { return active_; }
  // Faults of the disk begin with the first process that serves.
  void allow_disk() { disk_allowed_ = true; }

  DiskFate fate(DiskFaults::Operation operation, const std::string& path) override;
  NetworkFate fate(const FacilityId& facility, bool upward, Request::Kind kind) override;
  SchedulerFate fate(const FacilityId& facility, SchedulerFaults::Command command) override;
  AgentFaults::Fate fate(const FacilityId& facility, AgentMachine::Step step) override;
  SimulatedJournal::Fate commit();
  bool repeats_action();

  // Faults that come by themselves, from now on.
  void begin(World& world, std::map<FacilityId, DrawnQueue*> queues);
  // The server came to its end in the middle of something: another process follows.
  void server_died();

  // Exactly zero for jobs that may be doubled by a scheduler that lies about what it has.
  [[nodiscard]] bool scheduler_hides() const { return rates_.hides > 0; }

 private:
  void every(double gap_s, const char* what, std::function<void()> fault);
  void end_server();
  void restart_later();
  void disturb_a_job();
  void relaunch_a_job();
  Facility* some_facility(Prng& random);

  FaultRates rates_;
  std::uint64_t disk_bytes_;
  bool active_ = true;
  bool disk_allowed_ = false;
  World* world_ = nullptr;
  std::map<FacilityId, DrawnQueue*> queues_;
  Prng network_;
  Prng disk_;
  Prng commit_;
  Prng scheduler_;
  Prng agent_;
  Prng times_;
  Prng jobs_;
  Prng power_;
};

// A queue whose jobs wait as its facility's do, with estimates that may be absurd, and jobs that do
// not start before the faults are over.
class FaultyQueue : public DrawnQueue {
 public:
  FaultyQueue(const ScenarioFacility& facility, const FaultRates& rates, const Faults& faults,
              std::uint64_t seed);
  [[nodiscard]] std::optional<double> expected_wait_s(QueueJobId job, double now_s) const override;

 private:
  double absurd_;
  mutable Prng estimates_;
};

}  // namespace fedqueue::simulation
