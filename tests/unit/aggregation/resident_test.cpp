// Resident segments: their length, their weights, and participation as a rate.
#include <gmock/gmock.h>

#include "aggregation/planning/segment_length.h"
#include "aggregation/weighting/participation.h"
#include "tests/unit/aggregation/round_builder.h"

namespace fedqueue::test {
namespace {

PolicyConfig resident() {
  PolicyConfig config;
  config.policy = PolicyKind::resident;
  return config;
}

RoundState at_version(Version version, std::int64_t active, std::vector<Arrival> counted) {
  RoundState round;
  round.version = version;
  round.enrolled = active;
  round.counted = std::move(counted);
  return round;
}

TEST(SegmentLength, IsTheShortestThatKeepsTheExchangeCheap) {
  const SegmentLimits limits{40, 1, 1000, 0.1};
  // 5 s of exchange, 0.5 s a step: 90 steps are 45 s, and 5 s are a tenth of 50.
  EXPECT_EQ(segment_steps(5.0, 0.5, limits), 90);
  EXPECT_LE(5.0, 0.1 * (90 * 0.5 + 5.0));
  EXPECT_GT(5.0, 0.1 * (89 * 0.5 + 5.0));
}

TEST(SegmentLength, StaysWithinItsLimits) {
  const SegmentLimits limits{40, 20, 1000, 0.1};
  EXPECT_EQ(segment_steps(std::nullopt, 0.5, limits), 40);
  EXPECT_EQ(segment_steps(5.0, std::nullopt, limits), 40);
  EXPECT_EQ(segment_steps(0.01, 0.5, limits), 20);
  EXPECT_EQ(segment_steps(1e9, 1e-9, limits), 1000);
  EXPECT_EQ(segment_steps(std::nullopt, 0.5, {40, 100, 1000, 0.1}), 100);
}

// Twice the limit per step weighs half; steps, not the length of the segment, decide.
TEST(NormLimit, ScalesUpdatesDownThatAreMuchLongerThanUsual) {
  const auto policy = make_policy(resident());
  Arrival usual = arrival("a", 0, 0, 10);
  usual.norm = 10 * 0.4;
  Arrival runaway = arrival("b", 0, 0, 10);
  runaway.norm = 10 * 0.8;
  Arrival segment = arrival("c", 0, 0, 100);
  segment.norm = 100 * 0.4;
  const std::vector<KnownFacility> all = {known("a"), known("b"), known("c")};
  RoundState round = at_version(0, 3, {usual, runaway, segment});
  Aggregation free = policy->aggregate(round, all);
  policy->limit_norms(free, round);
  Aggregation limited = free;
  policy->limit_norms(limited, round);
  EXPECT_DOUBLE_EQ(limited.updates[1].weight, free.updates[1].weight) << "nothing is usual yet";
  round.usual_norm_per_step = 0.1;  // times 4, the default
  policy->limit_norms(limited, round);
  EXPECT_DOUBLE_EQ(limited.updates[0].weight, free.updates[0].weight) << "just within";
  EXPECT_DOUBLE_EQ(limited.updates[1].weight, free.updates[1].weight / 2);
  EXPECT_DOUBLE_EQ(limited.updates[2].weight, free.updates[2].weight);

  round.usual_norm_per_step = 0;
  limited = free;
  policy->limit_norms(limited, round);
  EXPECT_DOUBLE_EQ(limited.updates[1].weight, free.updates[1].weight);
  round.usual_norm_per_step = 0.1;

  PolicyConfig off = resident();
  off.norm_factor_max = 0;
  limited = free;
  make_policy(off)->limit_norms(limited, round);
  EXPECT_DOUBLE_EQ(limited.updates[1].weight, free.updates[1].weight);
}

TEST(NormLimit, WhereModelsAreMixedTheCurrentOneGetsTheRest) {
  PolicyConfig config;
  config.policy = PolicyKind::fedasync;
  config.norm_factor_max = 2;
  const auto policy = make_policy(config);
  Arrival runaway = arrival("a", 0, 0, 10);
  runaway.norm = 80;
  RoundState round = at_version(0, 1, {runaway});
  round.usual_norm_per_step = 1;
  const std::vector<KnownFacility> all = {known("a")};
  Aggregation aggregation = policy->aggregate(round, all);
  ASSERT_TRUE(aggregation.rebuild_models);
  EXPECT_DOUBLE_EQ(aggregation.updates[0].weight, 0.6);
  policy->limit_norms(aggregation, round);
  EXPECT_DOUBLE_EQ(aggregation.updates[0].weight, 0.15);
  EXPECT_DOUBLE_EQ(aggregation.keep, 0.85);
}

TEST(Resident, TrainsShortSegmentsUntilTheTimeOfItsJobIsOver) {
  const auto policy = make_policy(resident());
  KnownFacility self = known("a", 100.0, 0.5);
  EXPECT_EQ(policy->plan(self, {}, std::nullopt, 0).local_steps, 10);
  self.sync_seconds = 5;
  EXPECT_EQ(policy->plan(self, {}, std::nullopt, 0).local_steps, 90);
  EXPECT_EQ(policy->plan(self, {}, 40.0, 0).local_steps, 72) << "36 s are left beside the margin";
  EXPECT_DOUBLE_EQ(policy->plan(self, {}, 3600.0, 0).budget_s, 3600);
  EXPECT_DOUBLE_EQ(policy->plan(self, {}, 3600.0, 0).learning_rate, 0.01);
  EXPECT_TRUE(policy->has_more_segments(1'000'000));
  EXPECT_FALSE(policy->may_submit_successor(0, 3600.0));
  EXPECT_TRUE(policy->may_submit_successor(1800, 3600.0)) << "half of its time limit";
}

TEST(Resident, SubmitsTheNextJobAfterTheConfiguredShare) {
  PolicyConfig config = resident();
  config.early_submission = 0.75;
  const auto policy = make_policy(config);
  EXPECT_FALSE(policy->may_submit_successor(2699, 3600.0));
  EXPECT_TRUE(policy->may_submit_successor(2700, 3600.0));
  EXPECT_TRUE(policy->may_submit_successor(0, std::nullopt)) << "nothing to take a share of";
  config.early_submission = -1;
  EXPECT_FALSE(make_policy(config)->may_submit_successor(3600, 3600.0));
  config.early_submission = 1.5;
  EXPECT_FALSE(config.validate());
}

TEST(Resident, WeighsADeltaByShareStalenessAndParticipation) {
  const auto policy = make_policy(resident());
  std::vector<KnownFacility> facilities{known("a"), known("b"), known("c"), known("d")};
  facilities[1].participation = 0.5;
  const Aggregation aggregation =
      policy->aggregate(at_version(8, 4, {arrival("a", 8, 8), arrival("b", 4, 8)}), facilities);
  // The step of 2, τ/K = 0 and 1; s = 1/(1 + 0.5·τ/K).
  EXPECT_NEAR(aggregation.updates[0].weight, 2 * 0.25, 1e-12);
  EXPECT_NEAR(aggregation.updates[1].weight, 2 * 0.25 * (1 / 1.5) / 0.5, 1e-12);
  EXPECT_FALSE(aggregation.rebuild_models);
  EXPECT_EQ(aggregation.step.optimizer, ServerOptimizer::heloco);
  EXPECT_DOUBLE_EQ(aggregation.step.momentum, 0.9);
  EXPECT_DOUBLE_EQ(aggregation.step.learning_rate, 1 / 1.9);
}

TEST(Resident, TakesAnOuterMomentumWhenAsked) {
  PolicyConfig config = resident();
  config.outer = ServerOptimizer::momentum;
  config.eta_global = 1;
  const auto policy = make_policy(config);
  const std::vector<KnownFacility> facilities{known("a"), known("b"), known("c"), known("d")};
  const Aggregation aggregation =
      policy->aggregate(at_version(0, 4, {arrival("a", 0, 0)}), facilities);
  EXPECT_NEAR(aggregation.updates[0].weight, 0.25, 1e-12);
  EXPECT_EQ(aggregation.step.optimizer, ServerOptimizer::momentum);
  EXPECT_DOUBLE_EQ(aggregation.step.momentum, 0.5);
  EXPECT_DOUBLE_EQ(aggregation.step.learning_rate, 0.5);
}

TEST(Resident, OneFacilityAloneIsNotStretched) {
  const auto policy = make_policy(resident());
  EXPECT_NEAR(policy->aggregate(at_version(0, 1, {arrival("a", 0, 0)}), std::vector{known("a")})
                  .updates[0]
                  .weight,
              1, 1e-12)
      << "twice its own step would overshoot what it has learnt";
}

TEST(Resident, NeverGoesFurtherThanAFacilitysOwnModel) {
  const auto policy = make_policy(resident());
  std::vector<KnownFacility> facilities{known("a"), known("b")};
  facilities[0].participation = 0.01;
  EXPECT_NEAR(
      policy->aggregate(at_version(0, 2, {arrival("a", 0, 0)}), facilities).updates[0].weight, 1,
      1e-12);
}

TEST(Resident, RefusesWhatIsOlderThanFourRoundsOfAllActiveFacilities) {
  const auto policy = make_policy(resident());
  EXPECT_EQ(policy->admit(arrival("a", 0, 16), at_version(16, 4, {})).kind, Admission::Kind::count);
  EXPECT_EQ(policy->admit(arrival("a", 0, 17), at_version(17, 4, {})).kind,
            Admission::Kind::reject);
}

TEST(Resident, KeepsControlVariatesWhenAsked) {
  PolicyConfig config = resident();
  config.control_variates = true;
  const auto policy = make_policy(config);
  const std::vector<KnownFacility> facilities{known("a"), known("b"), known("c"), known("d")};
  EXPECT_DOUBLE_EQ(
      policy->aggregate(at_version(0, 4, {arrival("a", 0, 0)}), facilities).control_weight, 0.25);
  EXPECT_EQ(policy->training_settings().at("control_variates"), "1");
}

TEST(ParticipationRate, IsTheRoundRuleWhenEveryWindowBringsAnUpdate) {
  double by_rate = 1;
  double by_round = 1;
  for (const double factor : {1.0, 0.5, 2.0 / 3, 1.0}) {
    EXPECT_NEAR(participation_at_arrival(by_rate, 0.05, 1), by_round, 1e-12);
    by_rate = participation_after_arrival(by_rate, 0.05, 1, factor);
    by_round = update_participation(by_round, 0.05, factor);
    EXPECT_NEAR(by_rate, by_round, 1e-12);
  }
}

TEST(ParticipationRate, AMissedWindowCountsAsInTheRoundRule) {
  // Facility B of the worked example: absent in round 1, counted in round 2 with s = 2/3.
  EXPECT_NEAR(participation_at_arrival(1, 0.5, 2), 0.5, 1e-12);
  const double after = participation_after_arrival(1, 0.5, 2, 2.0 / 3);
  EXPECT_NEAR(after, 0.5833333333, 1e-9);
  EXPECT_NEAR(participation_at_arrival(after, 0.5, 2), 0.2916666667, 1e-9);
}

TEST(ParticipationRate, SettlesAtTheShareOfWindowsThatBringAnUpdate) {
  double participation = 1;
  for (int i = 0; i < 4000; ++i)
    participation = participation_after_arrival(participation, 0.01, 4, 1);
  EXPECT_NEAR(participation, 0.25, 0.01);
}

TEST(ParticipationRate, StartsFromTheShareOfTimeWithAJob) {
  EXPECT_DOUBLE_EQ(first_presence(std::nullopt, 3600, true), 1);
  EXPECT_DOUBLE_EQ(first_presence(3600, 3600, false), 0.5);
  EXPECT_DOUBLE_EQ(first_presence(3600, 3600, true), 1);
  EXPECT_DOUBLE_EQ(first_presence(7200, 3600, true), 0.5);
}

}  // namespace
}  // namespace fedqueue::test
