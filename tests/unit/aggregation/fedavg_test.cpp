#include <gmock/gmock.h>

#include "tests/unit/aggregation/round_builder.h"

namespace fedqueue::test {
namespace {

using testing::ElementsAre;

PolicyConfig fedavg() {
  PolicyConfig config;
  config.policy = PolicyKind::fedavg;
  return config;
}

TEST(FedAvg, WeighsDeltasBySamplesOrEqually) {
  RoundState round;
  round.counted = {arrival("a", 0, 0), arrival("b", 0, 0)};
  const std::vector<KnownFacility> facilities{known("a", 10), known("b", 30)};
  const auto average = [&](const PolicyConfig& config) {
    const Aggregation aggregation = make_policy(config)->aggregate(round, facilities);
    EXPECT_FALSE(aggregation.rebuild_models);
    return 1 + aggregation.updates[0].weight * (1.2 - 1) +
           aggregation.updates[1].weight * (0.6 - 1);
  };
  EXPECT_NEAR(average(fedavg()), 0.75, 1e-12);
  PolicyConfig equal = fedavg();
  equal.weights = WeightRule::equal;
  EXPECT_NEAR(average(equal), 0.9, 1e-12);
}

TEST(FedAvg, GivesEverybodyTheSameStepsUnlessTheJobIsTooShort) {
  const auto policy = make_policy(fedavg());
  const KnownFacility a = known("a", 5000.0, 2.0);
  const WorkPlan plan = policy->plan(a, std::vector{a}, std::nullopt, 0);
  EXPECT_EQ(plan.local_steps, 100);
  EXPECT_DOUBLE_EQ(plan.learning_rate, 0.01);
  EXPECT_DOUBLE_EQ(plan.budget_s, 200);
  EXPECT_EQ(policy->plan(known("b"), {}, 10.0, 0).local_steps, 100);
  EXPECT_EQ(policy->plan(a, std::vector{a}, 120.0, 0).local_steps, 54);
}

TEST(FedAvg, WaitsForEverybodyHoweverLongTheQueue) {
  const auto policy = make_policy(fedavg());
  EXPECT_TRUE(policy->expects(1e6, 10));
  RoundState round;
  round.enrolled = 2;
  round.outstanding = {FacilityId("a"), FacilityId("b")};
  deliver(*policy, round, waited(arrival("a", 0, 0), 9e5, 10));
  EXPECT_FALSE(policy->should_close(round).close);
  deliver(*policy, round, arrival("b", 0, 0));
  EXPECT_TRUE(policy->should_close(round).close);
}

TEST(FedAvg, CountsOneUpdatePerFacilityAndRound) {
  const auto policy = make_policy(fedavg());
  RoundState round;
  deliver(*policy, round, arrival("a", 0, 0, 100, 1));
  EXPECT_EQ(policy->admit(arrival("a", 0, 0, 100, 2), round).kind, Admission::Kind::buffer);
}

TEST(FedAvg, StaleUpdatesCountUpToTheCap) {
  const auto policy = make_policy(fedavg());
  RoundState round;
  round.version = 9;
  EXPECT_EQ(policy->admit(arrival("a", 5, 9), round).kind, Admission::Kind::count);
  EXPECT_EQ(policy->admit(arrival("a", 4, 9), round).kind, Admission::Kind::reject);
}

TEST(FedAvg, WeightsSumToOneOverWhoeverCame) {
  const auto policy = make_policy(fedavg());
  RoundState round;
  round.counted = {arrival("a", 0, 0), arrival("c", 0, 0)};
  const std::vector<KnownFacility> facilities{known("a", 100), known("b", 100), known("c", 300),
                                              known("d", 200)};
  EXPECT_THAT(weights_of(policy->aggregate(round, facilities)), ElementsAre(0.25, 0.75));
}

TEST(FedAvg, ATimerClosesWithTheQuorumWhenOneIsSet) {
  PolicyConfig config = fedavg();
  config.round_timer_s = 600;
  config.quorum = 2;
  const auto policy = make_policy(config);
  EXPECT_EQ(policy->round_timer_s(), 600);
  RoundState round;
  round.outstanding = {FacilityId("c")};
  round.counted = {arrival("a", 0, 0)};
  round.timer_fired = true;
  EXPECT_FALSE(policy->should_close(round).close);
  round.counted.push_back(arrival("b", 0, 0));
  EXPECT_TRUE(policy->should_close(round).close);
}

}  // namespace
}  // namespace fedqueue::test
