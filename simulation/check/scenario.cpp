#include "simulation/check/scenario.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "simulation/clock/streams.h"

namespace fedqueue::simulation {
namespace {

// Half of all faults are exactly off; the others between `low` and `high`, evenly in their
// logarithm.
double rate(Prng& random, double low, double high) {
  if (random.uniform() < 0.5) return 0;
  return low * std::pow(high / low, random.uniform());
}

// Half of all kinds never come; the others with a gap between `low` and `high`.
double gap(Prng& random, double low, double high) { return rate(random, low, high); }

FaultRates draw_rates(Prng& random) {
  FaultRates rates;
  rates.lost = rate(random, 0.005, 0.15);
  rates.doubled = rate(random, 0.01, 0.2);
  rates.delayed = rate(random, 0.01, 0.3);
  rates.delay_mean_s = between(random, 0.2, 30);
  rates.cut = rate(random, 0.01, 0.3);
  rates.die_at_commit = rate(random, 0.002, 0.05);
  rates.die_at_disk = rate(random, 0.001, 0.02);
  rates.kill_gap_s = gap(random, 60, 1000);
  rates.power_share = random.uniform() < 0.3 ? 0 : random.uniform();
  rates.down_mean_s = between(random, 1, 60);
  rates.repeated_actions = rate(random, 0.01, 0.3);
  rates.disk_fails = rate(random, 0.002, 0.05);
  rates.short_writes = rate(random, 0.05, 0.5);
  rates.disk_full_gap_s = gap(random, 200, 2000);
  rates.disk_full_mean_s = between(random, 10, 120);
  rates.server_jump_gap_s = random.uniform() < 0.8 ? 0 : between(random, 300, 3000);
  rates.submit_fails = rate(random, 0.02, 0.4);
  rates.submit_fails_though_done = random.uniform();
  rates.submit_limit = rate(random, 0.02, 0.3);
  rates.command_fails = rate(random, 0.01, 0.3);
  rates.command_slow = rate(random, 0.02, 0.3);
  rates.hides = random.uniform() < 0.7 ? 0 : between(random, 0.02, 0.4);
  rates.shown_late_s = random.uniform() < 0.6 ? 0 : between(random, 0.5, 8);
  rates.never_starts = random.uniform() < 0.7 ? 0 : between(random, 0.05, 0.3);
  rates.disturbed_gap_s = gap(random, 60, 1000);
  rates.relaunched_gap_s = random.uniform() < 0.6 ? 0 : between(random, 100, 1000);
  rates.signal_gap_s = random.uniform() < 0.7 ? 0 : between(random, 100, 1000);
  rates.absurd_estimates = rate(random, 0.1, 1);
  rates.trainer_fails = random.uniform() < 0.8 ? 0 : between(random, 0.05, 0.4);
  rates.agent_dies = rate(random, 0.002, 0.1);
  rates.agent_kill_gap_s = gap(random, 100, 1500);
  rates.agent_jump_gap_s = random.uniform() < 0.8 ? 0 : between(random, 200, 2000);
  return rates;
}

// Whatever this build's make_policy knows.
const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> known = [] {
    std::vector<std::string> names;
    for (const char* name :
         {"fedavg", "fedqueue", "fedprox", "fedavgm", "fedadam", "fedyogi", "fedadagrad", "fednova",
          "scaffold", "fedasync", "fedbuff", "fedcompass", "resident"}) {
      PolicyConfig config;
      if (config.set("policy", name) && config.validate()) names.emplace_back(name);
    }
    return names;
  }();
  return known;
}

PolicyConfig draw_policy(Prng& random, std::size_t honest) {
  PolicyConfig policy;
  const std::vector<std::string>& names = policy_names();
  (void)policy.set("policy", names[random.below(names.size())]);
  if (random.uniform() < 0.4) policy.semantics = Semantics::published;
  policy.t_sync_s = between(random, 60, 300);
  policy.theta_s = policy.t_sync_s * between(random, 0.05, 0.2);
  policy.admission_tolerance = between(random, 0, 0.5);
  policy.warm_up_steps = 1 + static_cast<std::int64_t>(random.below(20));
  policy.local_steps = 5 + static_cast<std::int64_t>(random.below(60));
  policy.segments_per_job = 1 + static_cast<std::int64_t>(random.below(3));
  policy.quorum = 1 + static_cast<std::int64_t>(random.below(std::min<std::size_t>(honest, 2)));
  if (random.uniform() < 0.6) {
    policy.staleness_max = static_cast<std::int64_t>(random.below(5)) - 1;
  }
  if (random.uniform() < 0.5) policy.round_timer_s = policy.t_sync_s * between(random, 0.8, 2);
  if (random.uniform() < 0.3) policy.share_cap = between(random, 0.3, 1);
  if (random.uniform() < 0.3) {
    constexpr const char* steps[] = {"momentum", "adam",     "yogi",
                                     "adagrad",  "nesterov", "delayed_nesterov"};
    (void)policy.set("outer", steps[random.below(std::size(steps))]);
    (void)policy.set("outer_delay", std::to_string(1 + random.below(4)));
  }
  if (random.uniform() < 0.3) (void)policy.set("mixing", "deltas");
  if (random.uniform() < 0.5) (void)policy.set("buffer_size", std::to_string(1 + random.below(4)));
  if (const double early = random.uniform(); early < 0.3) {
    policy.early_submission = early < 0.1 ? 0 : early < 0.2 ? 0.5 : 1;
  }
  // A combination that this policy does not take is replaced by its defaults.
  if (policy.validate()) return policy;
  PolicyConfig plain;
  plain.policy = policy.policy;
  plain.t_sync_s = policy.t_sync_s;
  return plain;
}

EngineConfig draw_engine(Prng& random, std::size_t honest) {
  EngineConfig engine;
  engine.run = "check";
  engine.policy = draw_policy(random, honest);
  engine.heartbeat_s = between(random, 3, 10);
  engine.lease_s = engine.heartbeat_s * between(random, 3, 6);
  engine.empty_timers_max = 1 + static_cast<int>(random.below(3));
  engine.models_kept = 1 + static_cast<std::int64_t>(random.below(5));
  if (random.uniform() < 0.6) engine.job_time_limit_s = between(random, 100, 900);
  return engine;
}

ScenarioFacility draw_facility(Prng& random, std::size_t index) {
  ScenarioFacility facility;
  facility.name = "site-" + std::string(1, static_cast<char>('a' + index));
  facility.samples = random.uniform() < 0.05 ? 0 : 1 + static_cast<std::int64_t>(random.below(900));
  facility.wait_median_s = between(random, 1, 60);
  facility.wait_sigma = random.uniform() < 0.3 ? 0 : between(random, 0.2, 1.2);
  facility.step_s = between(random, 0.2, 1.5);
  facility.launch_s = between(random, 0.5, 10);
  facility.latency_s = between(random, 0.005, 0.2);
  facility.bytes_per_s = log_normal(random, 3000, 2);
  facility.bytes_per_s = std::clamp(facility.bytes_per_s, 300.0, 1e6);
  if (random.uniform() < 0.4) facility.time_limit_s = between(random, 150, 900);
  return facility;
}

void add_liars(Prng& random, Scenario& scenario) {
  if (random.uniform() < 0.5) return;
  constexpr auto kinds = static_cast<std::uint64_t>(Lie::huge);
  // The first facility is always honest: somebody must be able to go on.
  for (std::size_t i = 1; i < scenario.facilities.size(); ++i) {
    if (random.uniform() < 0.5) continue;
    scenario.facilities[i].lie = static_cast<Lie>(1 + random.below(kinds));
    scenario.facilities[i].lies = between(random, 0.2, 1);
  }
}

// Adds an option if the policy takes it.
void try_option(PolicyConfig& policy, const char* name, const std::string& value) {
  PolicyConfig changed = policy;
  if (changed.set(name, value) && changed.validate()) policy = std::move(changed);
}

// What came later: from streams of its own, so that older seeds play what they played.
void draw_steps(Prng& random, PolicyConfig& policy) {
  if (random.uniform() < 0.1) try_option(policy, "outer", "heloco");
  if (random.uniform() < 0.12) try_option(policy, "control_variates", "true");
}

// A server that is slow, has little room or hangs on thin lines.
void draw_load(Prng& random, Scenario& scenario) {
  if (random.uniform() < 0.2) {
    scenario.turn_s = between(random, 0.5, 4);
    // A server that starts enrols all facilities at once.
    scenario.queue_max = scenario.facilities.size() + 1 + random.below(3);
  }
  if (random.uniform() < 0.25) {
    scenario.reduce_s = between(random, 5, 60);
    if (random.uniform() < 0.6) {
      try_option(scenario.engine.policy, "staleness_max", std::to_string(random.below(2)));
    }
  }
  if (random.uniform() < 0.2) {
    scenario.model_floats = 200 + random.below(150);
    for (ScenarioFacility& facility : scenario.facilities)
      facility.bytes_per_s = between(random, 150, 400);
    // Uploads that take seconds are cut, and launches that follow have other bytes to send.
    if (random.uniform() < 0.7) {
      scenario.rates.cut = between(random, 0.2, 0.6);
      scenario.rates.relaunched_gap_s = between(random, 20, 100);
    }
  }
}

}  // namespace

Scenario draw_scenario(std::uint64_t seed) {
  Prng random = stream(seed, "scenario");
  Scenario scenario;
  scenario.seed = seed;
  const std::size_t count = 1 + random.below(4);
  for (std::size_t i = 0; i < count; ++i) {
    scenario.facilities.push_back(draw_facility(random, i));
  }
  scenario.facilities.front().samples = std::max<std::int64_t>(1, scenario.facilities[0].samples);
  add_liars(random, scenario);
  const auto honest = static_cast<std::size_t>(
      std::count_if(scenario.facilities.begin(), scenario.facilities.end(),
                    [](const ScenarioFacility& one) { return one.lie == Lie::none; }));
  scenario.engine = draw_engine(random, honest);
  scenario.model_floats = 2 + random.below(60);
  // Without a limit, one huge update makes the squares that an adaptive step remembers infinite.
  const bool remembers = scenario.engine.policy.effective().server_step().has_state();
  if (random.uniform() < 0.5 || remembers) scenario.norm_max = 1000;
  scenario.piece_bytes = random.uniform() < 0.3 ? 0 : 8 + random.below(64);
  scenario.sync_every_bytes = random.uniform() < 0.3 ? 64u << 20 : 8 + random.below(100);
  scenario.rates = draw_rates(random);
  const double t_sync_s = scenario.engine.policy.t_sync_s;
  scenario.faults_s = t_sync_s * between(random, 3, 7);
  scenario.operator_stops = random.uniform() < 0.7;
  if (!scenario.operator_stops) {
    scenario.engine.rounds_max = 2 + static_cast<std::int64_t>(random.below(5));
  }
  Prng steps = stream(seed, "steps");
  draw_steps(steps, scenario.engine.policy);
  Prng load = stream(seed, "load");
  draw_load(load, scenario);
  scenario.with_controls = *scenario.engine.policy.effective().control_variates;
  const ServerStep step = scenario.engine.policy.effective().server_step();
  // Nor must it stay in what is remembered, or in control variates.
  if (step.has_state() || scenario.with_controls) scenario.norm_max = 1000;
  // The longest back-off of anybody, then rounds of which each may have to wait for its timer, a
  // job's whole queue wait, and a lease.
  scenario.calm_bound_s = 3600 + 30 * t_sync_s;
  return scenario;
}

std::string describe(const Scenario& scenario) {
  const PolicyConfig& policy = scenario.engine.policy;
  char text[400];
  std::snprintf(
      text, sizeof text,
      "%zu facilities, %s%s%s, outer %s, t_sync %.0f s, quorum %lld, segments %lld, "
      "turns take %.1f s, reductions %.1f s, faults for %.0f s",
      scenario.facilities.size(), std::string(policy_kind_name(policy.policy)).c_str(),
      policy.is_published() ? " as published" : "",
      scenario.with_controls ? " with control variates" : "",
      std::string(server_optimizer_name(policy.effective().server_step().optimizer)).c_str(),
      policy.t_sync_s, static_cast<long long>(policy.quorum),
      static_cast<long long>(policy.segments_per_job.value_or(1)), scenario.turn_s,
      scenario.reduce_s, scenario.faults_s);
  return text;
}

}  // namespace fedqueue::simulation
