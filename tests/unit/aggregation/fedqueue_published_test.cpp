// The published FedQueue on the worked examples of its arithmetic and its event rules.
#include <gmock/gmock.h>

#include <cmath>

#include "aggregation/queue/wait_predictor.h"
#include "tests/unit/aggregation/round_builder.h"

namespace fedqueue::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::Pointwise;

PolicyConfig published() {
  PolicyConfig config;
  config.semantics = Semantics::published;
  return config;
}

PolicyConfig published_harmonic(WeightRule rule = WeightRule::steps) {
  PolicyConfig config = published();
  config.weights = rule;
  config.staleness_fn = StalenessFunction::harmonic(0.5);
  return config;
}

std::vector<KnownFacility> three() { return {known("a"), known("b"), known("c")}; }

RoundState round_of(std::int64_t enrolled, Version version = 0) {
  RoundState round;
  round.enrolled = enrolled;
  round.version = version;
  return round;
}

TEST(PublishedPlan, FollowsTheWorkedExample) {
  const auto policy = make_policy(published());
  const std::vector<KnownFacility> all{known("a", 450.0, 0.5), known("b", 1050.0, 0.25),
                                       known("c", 360.0, 1.0)};
  const WorkPlan a = policy->plan(all[0], all, std::nullopt, 1);
  EXPECT_EQ(a.local_steps, 6180);
  EXPECT_DOUBLE_EQ(a.budget_s, 3090);
  EXPECT_DOUBLE_EQ(a.learning_rate, 0.005145631067961165);
  EXPECT_DOUBLE_EQ(a.deadline_wait_s, 1170);
  const WorkPlan b = policy->plan(all[1], all, std::nullopt, 1);
  EXPECT_EQ(b.local_steps, 9960);
  EXPECT_DOUBLE_EQ(b.learning_rate, 0.0031927710843373497);
  EXPECT_DOUBLE_EQ(b.deadline_wait_s, 1770);
  const WorkPlan c = policy->plan(all[2], all, 60.0, 1);  // the reference knows no time limit
  EXPECT_EQ(c.local_steps, 3180);
  EXPECT_DOUBLE_EQ(c.learning_rate, 0.01);
  EXPECT_DOUBLE_EQ(c.deadline_wait_s, 1080);
}

TEST(PublishedPlan, FirstRoundIsTheWarmUpWithThePriorAsDeadline) {
  PolicyConfig config = published();
  config.q_init_s = 600;
  const auto policy = make_policy(config);
  KnownFacility b = known("b");
  b.predicted_wait_s = 600;
  const WorkPlan plan = policy->plan(b, std::vector{b}, std::nullopt, 0);
  EXPECT_EQ(plan.local_steps, 20);
  EXPECT_DOUBLE_EQ(plan.learning_rate, 0.01);
  EXPECT_DOUBLE_EQ(plan.deadline_wait_s, 1320);
  RoundState round = round_of(3);
  EXPECT_TRUE(policy->admit(waited(arrival("b", 0, 0), 1500, 1320), round).late);
}

TEST(PublishedPlan, TheSlowestFacilityEverSeenSetsTheLeastSteps) {
  const auto policy = make_policy(published());
  KnownFacility departed = known("c", 360.0, 100.0);
  departed.active = false;
  const std::vector<KnownFacility> all{known("a", 450.0, 0.5), departed};
  EXPECT_DOUBLE_EQ(policy->plan(all[0], all, std::nullopt, 1).learning_rate, 0.01 * 31 / 6180);
}

TEST(PublishedAdmission, LooksAtTheWaitAndAWaitAtTheDeadlineIsAdmitted) {
  const auto policy = make_policy(published());
  const RoundState round = round_of(3);
  const auto kind = [&](double wait_s, double deadline_s) {
    return policy->admit(waited(arrival("a", 0, 0), wait_s, deadline_s), round).kind;
  };
  EXPECT_EQ(kind(500, 1170), Admission::Kind::count);
  EXPECT_EQ(kind(2000, 1770), Admission::Kind::buffer);
  EXPECT_EQ(kind(100, 1080), Admission::Kind::count);
  EXPECT_EQ(kind(1770, 1770), Admission::Kind::count);
  EXPECT_EQ(kind(std::nextafter(1770, 2000), 1770), Admission::Kind::buffer);
}

TEST(PublishedAdmission, HasNoStalenessCapUnlessOneIsSet) {
  RoundState round = round_of(3, 50);
  const auto policy = make_policy(published());
  EXPECT_EQ(policy->admit(arrival("a", 1, 50), round).kind, Admission::Kind::count);
  PolicyConfig capped = published();
  capped.staleness_max = 4;
  EXPECT_EQ(make_policy(capped)->admit(arrival("a", 1, 50), round).kind, Admission::Kind::reject);
}

TEST(PublishedAdmission, RejectsWhatHoldsNothing) {
  const auto policy = make_policy(published());
  Arrival idle = arrival("a", 0, 0);
  idle.steps_run = 0;
  const Admission admission = policy->admit(idle, round_of(3));
  EXPECT_EQ(admission.kind, Admission::Kind::reject);
  EXPECT_THAT(admission.reason, HasSubstr("no local step"));
  EXPECT_EQ(policy->admit(arrival("a", 7, 3), round_of(3, 3)).kind, Admission::Kind::reject);
}

TEST(PublishedRounds, ALateUpdateOfThisRoundCountsInTheNext) {
  const auto policy = make_policy(published());
  RoundState round = round_of(3);
  deliver(*policy, round, arrival("a", 0, 0));
  deliver(*policy, round, waited(arrival("b", 0, 0), 2000, 100));
  EXPECT_FALSE(policy->should_close(round).close);
  deliver(*policy, round, arrival("c", 0, 0));
  ASSERT_TRUE(policy->should_close(round).close);
  const Aggregation first = policy->aggregate(round, three());
  EXPECT_THAT(facility_and_staleness(first), ElementsAre(Pair("a", 0), Pair("c", 0)));
  EXPECT_THAT(first.kept_late, ElementsAre(round.late[0].id));
  EXPECT_TRUE(first.rebuild_models);
  EXPECT_TRUE(first.unweighted_buffers);

  round = next_round(round, first);
  deliver(*policy, round, arrival("a", 1, 1));
  EXPECT_FALSE(policy->should_close(round).close);
  deliver(*policy, round, arrival("c", 1, 1));
  ASSERT_TRUE(policy->should_close(round).close);
  const Aggregation second = policy->aggregate(round, three());
  EXPECT_THAT(facility_and_staleness(second),
              ElementsAre(Pair("a", 0), Pair("b", 1), Pair("c", 0)));
  EXPECT_THAT(second.kept_late, IsEmpty());
}

TEST(PublishedRounds, WhenAllAreLateAllAreUsed) {
  const auto policy = make_policy(published());
  RoundState round = round_of(2);
  deliver(*policy, round, waited(arrival("a", 0, 0), 2000, 100));
  deliver(*policy, round, waited(arrival("b", 0, 0), 2000, 100));
  ASSERT_TRUE(policy->should_close(round).close);
  const Aggregation aggregation = policy->aggregate(round, three());
  EXPECT_THAT(facility_and_staleness(aggregation), ElementsAre(Pair("a", 0), Pair("b", 0)));
  EXPECT_THAT(aggregation.kept_late, IsEmpty());
}

// Nobody may deliver again before the publication, so that waiting for more would last for ever.
TEST(PublishedRounds, WhenAllAreInAndTooFewOfThemInTimeTheLateOnesAreUsedToo) {
  PolicyConfig config = published();
  config.quorum = 2;
  const auto policy = make_policy(config);
  RoundState round = round_of(3);
  round.counted = {arrival("a", 0, 0)};
  round.late = {arrival("b", 0, 0)};
  EXPECT_FALSE(policy->should_close(round).close) << "c may still come in time";
  round.late.push_back(arrival("c", 0, 0));
  EXPECT_TRUE(policy->should_close(round).close);
  EXPECT_EQ(policy->aggregate(round, three()).updates.size(), 3u);
}

TEST(PublishedRounds, ASlowFacilityEntersTheNextAggregationAndAloneOnlyByTheTimer) {
  const auto policy = make_policy(published());
  RoundState round = round_of(3);
  for (int g = 0; g < 2; ++g) {
    deliver(*policy, round, arrival("a", g, g));
    deliver(*policy, round, arrival("b", g, g));
    EXPECT_FALSE(policy->should_close(round).close);
    round.timer_fired = true;
    ASSERT_TRUE(policy->should_close(round).close);
    EXPECT_EQ(policy->should_close(round).reason, "timer");
    round = next_round(round, policy->aggregate(round, three()));
  }
  deliver(*policy, round, waited(arrival("c", 0, 2), 9000, 100));
  EXPECT_FALSE(policy->should_close(round).close);

  RoundState by_timer = round;
  by_timer.timer_fired = true;
  ASSERT_TRUE(policy->should_close(by_timer).close);
  EXPECT_THAT(facility_and_staleness(policy->aggregate(by_timer, three())),
              ElementsAre(Pair("c", 2)));

  deliver(*policy, round, arrival("a", 2, 2));
  deliver(*policy, round, arrival("b", 2, 2));
  ASSERT_TRUE(policy->should_close(round).close);
  EXPECT_THAT(facility_and_staleness(policy->aggregate(round, three())),
              ElementsAre(Pair("a", 0), Pair("b", 0), Pair("c", 2)));
}

TEST(PublishedRounds, AnEmptyTimerClosesNothing) {
  const auto policy = make_policy(published());
  RoundState round = round_of(3);
  round.timer_fired = true;
  EXPECT_FALSE(policy->should_close(round).close);
  EXPECT_TRUE(policy->aggregate(round, three()).empty());
}

TEST(PublishedRounds, AFailedFacilityIsNotWaitedFor) {
  const auto policy = make_policy(published());
  RoundState round = round_of(3);
  deliver(*policy, round, arrival("a", 0, 0));
  deliver(*policy, round, arrival("b", 0, 0));
  EXPECT_FALSE(policy->should_close(round).close);
  round.enrolled = 2;
  EXPECT_TRUE(policy->should_close(round).close);
}

TEST(PublishedRounds, ANewerUpdateIsNotReplacedByACarriedOverOne) {
  const auto policy = make_policy(published());
  RoundState round = round_of(3, 1);
  const Arrival older = waited(arrival("a", 0, 0), 2000, 100);
  const Arrival newer = arrival("a", 1, 1);
  round.late.push_back(older);
  deliver(*policy, round, newer);
  EXPECT_FALSE(policy->should_close(round).close);  // two updates, but one facility
  round.timer_fired = true;
  const Aggregation aggregation = policy->aggregate(round, three());
  ASSERT_EQ(aggregation.updates.size(), 1u);
  EXPECT_EQ(aggregation.updates[0].id, newer.id);
  ASSERT_EQ(aggregation.dropped.size(), 1u);
  EXPECT_EQ(aggregation.dropped[0].id, older.id);
}

TEST(PublishedRounds, OfTwoAnswersToTheSameVersionTheLaterCounts) {
  const auto policy = make_policy(published());
  RoundState round = round_of(2);
  deliver(*policy, round, arrival("a", 0, 0, 100, 1));
  const Arrival again = arrival("a", 0, 0, 100, 2);
  deliver(*policy, round, again);
  EXPECT_FALSE(policy->should_close(round).close);
  deliver(*policy, round, arrival("b", 0, 0));
  const Aggregation aggregation = policy->aggregate(round, three());
  ASSERT_EQ(aggregation.updates.size(), 2u);
  EXPECT_EQ(aggregation.updates[0].id, again.id);
  EXPECT_THAT(weights_of(aggregation), ElementsAre(0.5, 0.5));
}

std::vector<Arrival> worked_round(std::int64_t steps_run_of_b = 9960) {
  std::vector<Arrival> arrivals{arrival("a", 1, 1, 6180), arrival("b", 0, 1, 9960),
                                arrival("c", 1, 1, 3180)};
  arrivals[1].steps_run = steps_run_of_b;
  return arrivals;
}

double average(const Aggregation& aggregation, const std::vector<double>& models) {
  double result = 0;
  for (std::size_t i = 0; i < models.size(); ++i)
    result += aggregation.updates[i].weight * models[i];
  return result;
}

TEST(PublishedWeights, AreStalenessTimesAssignedStepsNormalised) {
  RoundState round = round_of(3, 1);
  round.counted = worked_round(17);  // steps really run do not matter to the reference
  const Aggregation aggregation = make_policy(published_harmonic())->aggregate(round, three());
  EXPECT_THAT(weights_of(aggregation), Pointwise(DoubleNear(1e-12), {0.38625, 0.415, 0.19875}));
  EXPECT_NEAR(average(aggregation, {1, 2, 4}), 2.01125, 1e-12);
}

TEST(PublishedWeights, BySamplesWhenAskedFor) {
  RoundState round = round_of(3, 1);
  round.counted = worked_round();
  const std::vector<KnownFacility> facilities{known("a", 1000), known("b", 3000), known("c", 500)};
  for (const Semantics semantics : {Semantics::published, Semantics::corrected}) {
    PolicyConfig config = published_harmonic(WeightRule::samples);
    config.semantics = semantics;
    const Aggregation aggregation = make_policy(config)->aggregate(round, facilities);
    EXPECT_THAT(weights_of(aggregation), Pointwise(DoubleNear(1e-12), {2.0 / 7, 4.0 / 7, 1.0 / 7}));
    EXPECT_NEAR(average(aggregation, {1, 2, 4}), 2.0, 1e-12);
  }
}

TEST(PublishedWeights, DoNotDependOnTheOrderOfArrival) {
  RoundState round = round_of(3, 1);
  round.counted = worked_round();
  const auto policy = make_policy(published_harmonic());
  const Aggregation forward = policy->aggregate(round, three());
  std::reverse(round.counted.begin(), round.counted.end());
  const Aggregation backward = policy->aggregate(round, three());
  EXPECT_EQ(weights_of(forward), weights_of(backward));
  EXPECT_EQ(facility_and_staleness(forward), facility_and_staleness(backward));
}

TEST(PublishedWeights, ALoneVeryStaleUpdateReplacesTheModelAsInTheReference) {
  RoundState round = round_of(3, 5);
  round.late.push_back(waited(arrival("b", 0, 5), 9000, 100));
  round.timer_fired = true;
  const Aggregation aggregation = make_policy(published_harmonic())->aggregate(round, three());
  EXPECT_THAT(facility_and_staleness(aggregation), ElementsAre(Pair("b", 5)));
  EXPECT_THAT(weights_of(aggregation), ElementsAre(1));
}

// Two facilities with f(x) = (x − optimum)²/2, plain SGD, optima 0 and 1: iterates rounds with the
// policy's own steps, learning rates and weights until nothing moves.
double fixed_point(const PolicyConfig& config) {
  const auto policy = make_policy(config);
  const std::vector<KnownFacility> all{known("a", 0.0, 4.0), known("b", 0.0, 1.0)};
  double model = 0.3;
  for (int version = 0; version < 2000; ++version) {
    RoundState round;
    round.version = version;
    round.enrolled = 2;
    std::vector<double> trained;
    for (std::size_t k = 0; k < all.size(); ++k) {
      const WorkPlan plan = policy->plan(all[k], all, std::nullopt, version);
      EXPECT_EQ(plan.local_steps, k == 0 ? 10 : 40);
      double weight = model;
      for (std::int64_t step = 0; step < plan.local_steps; ++step)
        weight -= plan.learning_rate * (weight - static_cast<double>(k));
      trained.push_back(weight);
      round.counted.push_back(arrival(all[k].id.str(), version, version, plan.local_steps));
    }
    EXPECT_TRUE(policy->should_close(round).close);
    model = average(policy->aggregate(round, all), trained);
  }
  return model;
}

TEST(PublishedWeights, ByAssignedStepsBiasTheObjective) {
  PolicyConfig config = published();
  config.t_sync_s = 42;
  config.theta_s = 2;  // 40 seconds of work: 10 steps of 4 s, or 40 of 1 s
  config.warm_up_steps = 1;
  EXPECT_NEAR(fixed_point(config), 0.7994259849, 1e-9);
  config.weights = WeightRule::samples;
  EXPECT_NEAR(fixed_point(config), 0.4991040657, 1e-9);
  config.scale_learning_rate = false;
  EXPECT_NEAR(fixed_point(config), 0.7758847201, 1e-9);
}

}  // namespace
}  // namespace fedqueue::test
