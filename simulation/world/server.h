// The simulated server: the product's driver, engine and blob store, over a journal and a disk in
// memory that outlive its processes. A process can be ended at any point and started again.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/prng.h"
#include "simulation/world/desk.h"
#include "simulation/world/journal.h"
#include "simulation/world/reducer.h"

namespace fedqueue::simulation {

struct ServerSetup {
  EngineConfig engine;
  Bytes initial;                                                // version 0
  std::vector<std::pair<FacilityId, std::int64_t>> facilities;  // and their samples
  BlobLimits limits{.update_bytes_max = 1ull << 40,
                    .quota_bytes = 0,
                    .free_bytes_min = 0,
                    .sync_every_bytes = 64u << 20};
  std::size_t queue_max = Driver::queue_max;  // events that wait for a turn
  double turn_s = 0;                          // from a turn's first event to the turn
  double reduce_s = 0.1;
  double screen_s = 0.01;
  double norm_max = 0;
  std::function<bool()> repeats;  // whether an action is done twice; may be empty
  std::uint64_t seed = 0;         // of tokens
};

class SimulatedServer : public Listener {
 public:
  // What is given outlives the server.
  SimulatedServer(Clock& clock, ServerSetup setup, ModelAlgebra& algebra, Witness& witness,
                  DiskFaults* disk_faults = nullptr);
  ~SimulatedServer() override;

  // A new process. Nothing happens while one runs.
  void start();
  // Ends the process between two turns, as kill -9 does.
  void kill();
  // Ends whatever runs and lets the disk forget.
  void fail_power(Prng& random);
  [[nodiscard]] bool running() const { return process_ != nullptr; }
  // Called after a process has ended in the middle of something.
  void on_death(std::function<void()> callback) { on_death_ = std::move(callback); }
  // The machine stood still, or its clock jumped, for so long.
  void jump(Duration forward) { jumped_ += forward; }

  bool receive(const FacilityId& peer, std::shared_ptr<const Request> request, const BodyFlow& flow,
               Respond respond) override;
  // False when there is no process, or its queue is full.
  bool post(Event event, fedqueue::Reply reply = {});

  // REQUIRES: running().
  [[nodiscard]] const Engine& engine() const;
  [[nodiscard]] SimulatedDisk& disk() { return disk_; }
  [[nodiscard]] SimulatedJournal& journal() { return journal_; }
  [[nodiscard]] const ServerSetup& setup() const { return setup_; }
  [[nodiscard]] int processes() const { return processes_; }

 private:
  struct Process;
  class FactWitness;

  void guard(const std::function<void()>& work);
  void boot();
  void wake();
  void turn();
  void plan_wakeup();
  [[nodiscard]] Instant uptime() const;

  Clock& clock_;
  ServerSetup setup_;
  ModelAlgebra& algebra_;
  Witness& witness_;
  Mortal mortal_;
  SimulatedDisk disk_;
  SimulatedJournal journal_;
  Prng tokens_;
  std::shared_ptr<Process> process_;
  std::function<void()> on_death_;
  Duration jumped_{};
  int processes_ = 0;
};

}  // namespace fedqueue::simulation
