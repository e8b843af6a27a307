// A small simulated federation without faults, for tests: three facilities, models of four floats.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "simulation/world/world.h"

namespace fedqueue::simulation::test {

// Every step moves every float by 0.01 times the facility's number.
class TinyTrainer : public SimTrainer {
 public:
  double launch_s(const FacilityId&) override { return 2; }
  double step_s(const FacilityId&, const Segment&) override { return 0.5; }
  Result<LocalOutcome> train(const LocalTask& task) override {
    ++segments;
    const float move = 0.01f * static_cast<float>(task.facility.str().back() - 'a' + 1) *
                       static_cast<float>(task.steps);
    LocalOutcome outcome;
    outcome.update = to_bytes(std::vector<float>(to_floats(*task.base).size(), move));
    outcome.loss = 1;
    outcome.samples = task.steps;
    return outcome;
  }
  int segments = 0;
};

class TinyFederation {
 public:
  explicit TinyFederation(std::uint64_t seed, EngineConfig config, Witness& witness)
      : world(seed, setup(std::move(config)), trainer, witness) {
    for (const char* name : {"site-a", "site-b", "site-c"}) {
      auto random = std::make_shared<Prng>(stream(seed, "waits", queues.size()));
      queues.push_back(
          std::make_unique<DrawnQueue>([random](double) { return log_normal(*random, 20, 1); }));
      FacilitySetup facility;
      facility.id = FacilityId(name);
      facility.run = RunId("mnist");
      facility.agent.poll_interval = std::chrono::seconds(5);
      world.add_facility(facility, *queues.back());
    }
  }

  static EngineConfig config() {
    EngineConfig config;
    config.run = "mnist";
    config.policy.t_sync_s = 100;
    config.policy.theta_s = 10;
    config.policy.warm_up_steps = 10;
    config.rounds_max = 6;
    config.job_time_limit_s = 600;
    return config;
  }

  // True when the run finished and every agent has ended in time.
  bool run(Duration longest) {
    world.start();
    return world.clock().run_while_not(
        [this] {
          for (const auto& [id, facility] : world.facilities()) {
            if (facility->agent_running()) return false;
          }
          return true;
        },
        Instant(longest));
  }

  TinyTrainer trainer;
  std::vector<std::unique_ptr<DrawnQueue>> queues;
  World world;

 private:
  static ServerSetup setup(EngineConfig config) {
    ServerSetup setup;
    setup.engine = std::move(config);
    setup.initial = to_bytes(std::vector<float>(4, 1.0f));
    for (const char* name : {"site-a", "site-b", "site-c"}) {
      setup.facilities.emplace_back(FacilityId(name), 100);
    }
    return setup;
  }
};

}  // namespace fedqueue::simulation::test
