// Plays random rounds with the published policy and, beside it, with a plain transcription of the
// reference's formulas and event rules that shares no code with it. Every round must have the same
// facilities, staleness and weights, and every plan the same steps, learning rate and deadline.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "aggregation/planning/work_budget.h"
#include "aggregation/queue/wait_predictor.h"
#include "core/base/prng.h"
#include "tests/unit/aggregation/round_builder.h"

namespace fedqueue::test {
namespace {

constexpr double t_sync = 100;
constexpr double theta = 7;
constexpr double q_init = 2;
constexpr double alpha = 0.5;
constexpr double admission = 0.2;
constexpr double lr_base = 0.01;
constexpr double beta = 0.5;
constexpr int warm_up = 20;

struct Plan {
  double steps, rate, deadline;
};

// One aggregation: facility → (staleness, weight).
using Applied = std::map<int, std::pair<int, double>>;

// The reference, written down as directly as it can be.
struct Reference {
  int count = 0;
  std::vector<double> q_hat, c_hat;
  std::vector<int> base;
  std::vector<Plan> plan;
  std::map<int, int> buffer;              // client → base
  std::vector<std::pair<int, int>> late;  // client, base
  int g = 0;

  explicit Reference(int clients)
      : count(clients),
        q_hat(clients, q_init),
        c_hat(clients, -1),
        base(clients, 0),
        plan(clients, {warm_up, lr_base, q_init + admission * t_sync}) {}

  double expression(int k) const {
    const double budget = std::max(0.5, t_sync - q_hat[k] - theta);
    return std::max(std::floor(budget / c_hat[k]), static_cast<double>(warm_up));
  }

  // Returns true when the round is full.
  bool arrive(int k, double wait, double step_time) {
    q_hat[k] = alpha * wait + (1 - alpha) * q_hat[k];
    c_hat[k] = c_hat[k] < 0 ? step_time : alpha * step_time + (1 - alpha) * c_hat[k];
    if (wait <= plan[k].deadline)
      buffer[k] = base[k];
    else
      late.push_back({k, base[k]});
    return static_cast<int>(buffer.size() + late.size()) >= count;
  }

  Applied aggregate() {
    std::vector<std::pair<int, int>> kept;
    for (const auto& entry : late) {
      if (entry.second < g)
        buffer[entry.first] = entry.second;
      else
        kept.push_back(entry);
    }
    late = kept;
    if (buffer.empty() && !late.empty()) {
      for (const auto& entry : late) buffer[entry.first] = entry.second;
      late.clear();
    }
    Applied applied;
    if (buffer.empty()) return applied;
    double sum_e = 0, sum_v = 0;
    for (const auto& [k, b] : buffer) sum_e += plan[k].steps;
    for (const auto& [k, b] : buffer) {
      const double v = 1 / (1 + beta * (g - b)) * plan[k].steps / sum_e;
      applied[k] = {g - b, v};
      sum_v += v;
    }
    for (auto& [k, entry] : applied) entry.second /= sum_v;
    ++g;
    double least = 1e300;
    for (int k = 0; k < count; ++k)
      if (c_hat[k] > 0) least = std::min(least, expression(k));
    for (const auto& [k, entry] : applied) {
      base[k] = g;
      plan[k] = {expression(k), lr_base * least / expression(k), q_hat[k] + admission * t_sync};
    }
    buffer.clear();
    return applied;
  }
};

std::string name_of(int k) { return "site-" + std::string(1, static_cast<char>('a' + k)); }

// The same run with the policy, as the engine would hold its state.
struct UnderTest {
  std::unique_ptr<const Policy> policy;
  std::vector<KnownFacility> facilities;
  std::vector<WaitPredictor> waits;
  std::vector<StepTime> step_times;
  std::vector<WorkPlan> plans;
  std::vector<Version> bases;
  RoundState round;

  explicit UnderTest(int clients) {
    PolicyConfig config;
    config.semantics = Semantics::published;
    config.t_sync_s = t_sync;
    config.theta_s = theta;
    config.staleness_fn = StalenessFunction::harmonic(beta);
    policy = make_policy(config);
    round.enrolled = clients;
    for (int k = 0; k < clients; ++k) {
      facilities.push_back(known(name_of(k)));
      waits.emplace_back(policy->config().predictor_config());
      step_times.emplace_back(policy->config().alpha_compute);
      facilities.back().predicted_wait_s = waits.back().predicted_s();
      bases.push_back(0);
    }
    for (int k = 0; k < clients; ++k)
      plans.push_back(policy->plan(facilities[k], facilities, std::nullopt, 0));
  }

  bool arrive(int k, double wait, double step_time) {
    waits[k].observe(wait);
    step_times[k].observe(step_time);
    facilities[k].predicted_wait_s = waits[k].predicted_s();
    facilities[k].step_seconds = step_times[k].seconds();
    deliver(*policy, round,
            waited(arrival(name_of(k), bases[k], round.version, plans[k].local_steps), wait,
                   plans[k].deadline_wait_s));
    return policy->should_close(round).close;
  }

  Applied aggregate() {
    Applied applied;
    round.timer_fired = true;
    const bool closes = policy->should_close(round).close;
    const Aggregation aggregation = policy->aggregate(round, facilities);
    EXPECT_EQ(closes, !aggregation.empty());
    if (aggregation.empty()) {
      round.timer_fired = false;
      return applied;
    }
    round = next_round(round, aggregation);
    for (const WeightedUpdate& update : aggregation.updates) {
      const int k = update.facility.str().back() - 'a';
      applied[k] = {static_cast<int>(update.staleness), update.weight};
      bases[k] = round.version;
      plans[k] = policy->plan(facilities[k], facilities, std::nullopt, round.version);
    }
    return applied;
  }
};

void expect_same(const Applied& expected, const Applied& got, int aggregation) {
  ASSERT_EQ(expected.size(), got.size()) << "aggregation " << aggregation;
  for (const auto& [k, entry] : expected) {
    ASSERT_TRUE(got.contains(k)) << "aggregation " << aggregation;
    EXPECT_EQ(entry.first, got.at(k).first) << "aggregation " << aggregation;
    EXPECT_NEAR(entry.second, got.at(k).second, 1e-12) << "aggregation " << aggregation;
  }
}

void expect_same_plans(const Reference& reference, const UnderTest& tested) {
  for (int k = 0; k < reference.count; ++k) {
    EXPECT_EQ(reference.plan[k].steps, static_cast<double>(tested.plans[k].local_steps));
    EXPECT_NEAR(reference.plan[k].rate, tested.plans[k].learning_rate, 1e-15);
    EXPECT_NEAR(reference.plan[k].deadline, tested.plans[k].deadline_wait_s, 1e-9);
  }
}

// A facility that was not answered is blocked; some job arrives next, or the timer fires.
void play(std::uint64_t seed, int clients, int aggregations) {
  Prng prng(seed);
  Reference reference(clients);
  UnderTest tested(clients);
  std::vector<bool> blocked(clients, false);
  int done = 0, late_seen = 0, stale_seen = 0;
  while (done < aggregations) {
    const int k = static_cast<int>(prng.below(clients));
    const bool timer = prng.uniform() < 0.06;
    bool aggregates = timer;
    if (!timer) {
      if (blocked[k]) continue;
      blocked[k] = true;
      const double wait = std::exp(3 + 1.2 * prng.normal());
      const double step_time = 0.05 * (1 + k) * (1 + 0.1 * prng.uniform());
      aggregates = reference.arrive(k, wait, step_time);
      ASSERT_EQ(aggregates, tested.arrive(k, wait, step_time)) << "seed " << seed;
    }
    if (!aggregates) continue;
    late_seen += static_cast<int>(reference.late.size());
    const Applied expected = reference.aggregate();
    expect_same(expected, tested.aggregate(), done);
    expect_same_plans(reference, tested);
    if (testing::Test::HasFailure()) return;
    for (const auto& [client, entry] : expected) {
      blocked[client] = false;
      stale_seen += entry.first > 0;
    }
    done += !expected.empty();
  }
  // Otherwise the comparison would have shown little.
  EXPECT_GT(late_seen, 0) << "seed " << seed;
  EXPECT_GT(stale_seen, 0) << "seed " << seed;
}

TEST(PublishedAgainstReference, TwentyRoundsOfFourFacilities) { play(1, 4, 20); }

TEST(PublishedAgainstReference, ManyRoundsOfDifferentSizes) {
  for (std::uint64_t seed = 2; seed < 60; ++seed) {
    play(seed, 2 + static_cast<int>(seed % 6), 200);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace fedqueue::test
