// A simulated federation: one server, its network, and facilities, on one clock.
//
//   World world(seed, server_setup, trainer);
//   world.add_facility(facility_setup, queue);
//   world.start();
//   world.clock().run_until(...);
//
// Promises: the same seed and the same calls give the same trace, event by event. Nothing waits and
// nothing runs on another thread; the product's code in it is the product's own, built with the
// simulator's points (simulation/simulated).
//
// Not thread-safe; distinct worlds may run on distinct threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "simulation/clock/streams.h"
#include "simulation/world/facility.h"
#include "simulation/world/server.h"

namespace fedqueue::simulation {

struct WorldFaults {
  DiskFaults* disk = nullptr;
  NetworkFaults* network = nullptr;
  SchedulerFaults* scheduler = nullptr;
  AgentFaults* agent = nullptr;
};

class World {
 public:
  // What is given outlives the world; `algebra` may be empty for arrays of floats.
  World(std::uint64_t seed, ServerSetup server, SimTrainer& trainer, Witness& witness,
        WorldFaults faults = {}, ModelAlgebra* algebra = nullptr);
  ~World();

  // Before start(). The queue outlives the world.
  Facility& add_facility(FacilitySetup setup, BatchQueue& queue);
  // The server and all agents.
  void start();

  [[nodiscard]] Clock& clock() { return clock_; }
  [[nodiscard]] Network& network() { return network_; }
  [[nodiscard]] SimulatedServer& server() { return server_; }
  [[nodiscard]] std::map<FacilityId, std::unique_ptr<Facility>>& facilities() {
    return facilities_;
  }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  std::uint64_t seed_;
  Clock clock_;
  ModelAlgebra floats_;
  SimTrainer& trainer_;
  Witness& witness_;
  WorldFaults faults_;
  SimulatedServer server_;
  Network network_;
  std::map<FacilityId, std::unique_ptr<Facility>> facilities_;
};

}  // namespace fedqueue::simulation
