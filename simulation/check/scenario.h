// What one seed of the suite plays: a small federation, its policy, and its faults. Every seed has
// its own subset of faults and its own rates, some of them exactly zero ("swarm testing"), since
// faults that always come together hide what each can do alone.
//
// Thread safety: pure functions and plain values.
// Source: Groce et al., "Swarm testing" (ISSTA 2012).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fedserver/engine/engine.h"

namespace fedqueue::simulation {

// Probabilities are per operation, gaps in virtual seconds between two faults of a kind; 0: never.
struct FaultRates {
  // The network, per message.
  double lost = 0;
  double doubled = 0;
  double delayed = 0;
  double delay_mean_s = 5;
  double cut = 0;
  // The server's process and disk.
  double die_at_commit = 0;
  double die_at_disk = 0;
  double kill_gap_s = 0;
  double power_share = 0;  // of those ends, how many are power failures
  double down_mean_s = 20;
  double repeated_actions = 0;
  double disk_fails = 0;
  double short_writes = 0;
  double disk_full_gap_s = 0;
  double disk_full_mean_s = 60;
  double server_jump_gap_s = 0;
  // The agent's scheduler commands.
  double submit_fails = 0;
  double submit_fails_though_done = 0;  // of those that fail for an unknown reason
  double submit_limit = 0;
  double command_fails = 0;
  double command_slow = 0;
  double hides = 0;
  double shown_late_s = 0;  // a job is not shown before
  // What happens to jobs.
  double never_starts = 0;
  double disturbed_gap_s = 0;  // requeued, preempted, cancelled, node failed
  double relaunched_gap_s = 0;
  double signal_gap_s = 0;
  double absurd_estimates = 0;
  double trainer_fails = 0;
  // The agent's process and clock.
  double agent_dies = 0;
  double agent_kill_gap_s = 0;
  double agent_jump_gap_s = 0;
};

// What a facility lies about; an honest one about nothing.
enum class Lie {
  none,
  too_many_steps,
  old_base,
  not_finite,
  other_size,
  other_facility,
  other_segment,
  other_bytes,  // than their checksum says
  other_token,
  huge,
};

struct ScenarioFacility {
  std::string name;
  std::int64_t samples = 1;
  double wait_median_s = 30;
  double wait_sigma = 0.5;
  double step_s = 0.5;
  double launch_s = 2;
  double latency_s = 0.05;
  double bytes_per_s = 1e6;
  double time_limit_s = 0;
  Lie lie = Lie::none;
  double lies = 0;  // how often
};

struct Scenario {
  std::uint64_t seed = 0;
  EngineConfig engine;
  std::size_t model_floats = 8;  // parameters
  bool with_controls = false;    // as many control variates follow them
  double norm_max = 0;
  std::uint64_t disk_bytes = 0;  // 0: without end
  std::uint64_t piece_bytes = 0;
  std::uint64_t sync_every_bytes = 0;
  std::vector<ScenarioFacility> facilities;
  FaultRates rates;
  // How loaded the server is.
  std::size_t queue_max = 4096;  // events that wait for a turn
  double turn_s = 0;             // from a turn's first event to the turn
  double reduce_s = 0.1;
  double faults_s = 0;         // how long faults happen
  bool operator_stops = true;  // otherwise the run ends by its number of rounds
  // After the faults every round must end, and at last every agent, within this time.
  double calm_bound_s = 0;

  // Of the floats of a model or update; the others, behind them, are control variates.
  [[nodiscard]] std::size_t parameters_of(std::size_t floats) const {
    return with_controls ? floats / 2 : floats;
  }
};

[[nodiscard]] Scenario draw_scenario(std::uint64_t seed);

// One line for people.
[[nodiscard]] std::string describe(const Scenario& scenario);

}  // namespace fedqueue::simulation
