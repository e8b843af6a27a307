// FedAvg's relatives: what each adds to it.
#include <gmock/gmock.h>

#include <cmath>

#include "aggregation/weighting/normalised.h"
#include "tests/unit/aggregation/round_builder.h"

namespace fedqueue::test {
namespace {

PolicyConfig named(const std::string& name) {
  PolicyConfig config;
  EXPECT_TRUE(config.set("policy", name));
  return config;
}

Aggregation of_two(const PolicyConfig& config, std::int64_t steps_a = 100,
                   std::int64_t steps_b = 100) {
  RoundState round;
  round.counted = {arrival("a", 0, 0, steps_a), arrival("b", 0, 0, steps_b)};
  const std::vector<KnownFacility> facilities{known("a"), known("b")};
  return make_policy(config)->aggregate(round, facilities);
}

TEST(Synchronous, EveryPolicyCanBeMadeByItsName) {
  for (const std::string& name : policy_names()) {
    const PolicyConfig config = named(name);
    ASSERT_TRUE(config.validate()) << name;
    const auto policy = make_policy(config);
    EXPECT_TRUE(policy->name().starts_with(name)) << name;
    EXPECT_TRUE(policy->config().server_step().validate()) << name;
  }
}

struct ExpectedStep {
  const char* policy;
  ServerOptimizer optimizer;
  double learning_rate;
  double momentum;
};

TEST(Synchronous, TheServerStepIsTheOneThePolicyIsNamedAfter) {
  for (const ExpectedStep& expected :
       {ExpectedStep{"fedavgm", ServerOptimizer::momentum, 1, 0.9},
        ExpectedStep{"fedadam", ServerOptimizer::adam, 0.1, 0.9},
        ExpectedStep{"fedyogi", ServerOptimizer::yogi, 0.1, 0.9},
        ExpectedStep{"fedadagrad", ServerOptimizer::adagrad, 0.1, 0.9}}) {
    const Aggregation aggregation = of_two(named(expected.policy));
    EXPECT_EQ(aggregation.step.optimizer, expected.optimizer) << expected.policy;
    EXPECT_DOUBLE_EQ(aggregation.step.learning_rate, expected.learning_rate) << expected.policy;
    EXPECT_DOUBLE_EQ(aggregation.step.momentum, expected.momentum) << expected.policy;
    EXPECT_DOUBLE_EQ(aggregation.step.beta2, 0.99) << expected.policy;
    EXPECT_DOUBLE_EQ(aggregation.step.tau, 1e-3) << expected.policy;
    EXPECT_THAT(weights_of(aggregation), testing::ElementsAre(0.5, 0.5)) << expected.policy;
  }
  EXPECT_EQ(of_two(named("fedavg")).step, ServerStep{});
}

TEST(Synchronous, AnyPolicyOfDeltasTakesAnOuterStepScaledToItsDelta) {
  PolicyConfig config = named("fedbuff");
  ASSERT_TRUE(config.set("outer", "nesterov"));
  const ServerStep step = config.effective().server_step();
  EXPECT_EQ(step.optimizer, ServerOptimizer::nesterov);
  EXPECT_DOUBLE_EQ(step.momentum, 0.5);
  EXPECT_DOUBLE_EQ(step.learning_rate, 0.5);  // 1 − m: all steps of one delta sum to the delta
}

TEST(Synchronous, AnOuterStepOnWholeModelsIsRefused) {
  PolicyConfig config = named("fedasync");
  config.outer = ServerOptimizer::momentum;
  const Status status = config.validate();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().cure, "set mixing = deltas, or leave `outer` out");
  config.mixing = Mixing::deltas;
  EXPECT_TRUE(config.validate());
}

TEST(FedProx, HandsItsProximalTermToTheTrainers) {
  EXPECT_EQ(std::stod(make_policy(named("fedprox"))->training_settings().at("proximal")), 0.01);
  EXPECT_FALSE(make_policy(named("fedavg"))->training_settings().contains("proximal"));
}

TEST(Scaffold, KeepsControlVariatesOverAllFacilities) {
  RoundState round;
  round.counted = {arrival("a", 0, 0)};
  const std::vector<KnownFacility> facilities{known("a"), known("b")};
  const auto policy = make_policy(named("scaffold"));
  EXPECT_DOUBLE_EQ(policy->aggregate(round, facilities).control_weight, 0.5);  // 1/N, N enrolled
  EXPECT_EQ(policy->training_settings().at("control_variates"), "1");
  EXPECT_DOUBLE_EQ(of_two(named("fedavg")).control_weight, 0);
}

TEST(FedNova, UndoesDifferentNumbersOfSteps) {
  const Aggregation aggregation = of_two(named("fednova"), 2, 8);
  // τ_eff = 5; 5·0.5/2 and 5·0.5/8.
  EXPECT_NEAR(aggregation.updates[0].weight, 1.25, 1e-12);
  EXPECT_NEAR(aggregation.updates[1].weight, 0.3125, 1e-12);
  EXPECT_NEAR(1 - aggregation.updates[0].weight * 0.2 - aggregation.updates[1].weight * 0.4, 0.625,
              1e-12);
  const Aggregation plain = of_two(named("fedavg"), 2, 8);
  EXPECT_NEAR(1 - plain.updates[0].weight * 0.2 - plain.updates[1].weight * 0.4, 0.7, 1e-12);
}

TEST(FedNova, NormalisesByWhatTheLocalOptimiserAddsUp) {
  EXPECT_DOUBLE_EQ(nova_normaliser(8, {0.1, 0, 0}), 8);
  EXPECT_NEAR(nova_normaliser(3, {0.1, 0.9, 0}), 5.61, 1e-12);
  // a ← a·(1 − 0.1) + 1 three times.
  EXPECT_NEAR(nova_normaliser(3, {0.1, 0, 1}), 2.71, 1e-12);
  // Momentum first: (0+1)·0.9+1 = 1.9, (1.9+1.9)·0.9+1 = 4.42.
  EXPECT_NEAR(nova_normaliser(2, {0.1, 0.9, 1}), 4.42, 1e-12);
  EXPECT_EQ(nova_normaliser(0, {0.1, 0.9, 1}), 0);
  // Long segments neither overflow nor take long.
  EXPECT_NEAR(nova_normaliser(1'000'000'000, {0.1, 0, 0.01}), 1000, 1e-6);
}

TEST(FedNova, WithAProximalTermTheStepsThemselvesAreTheirMean) {
  std::vector<double> shares{0.5, 0.5};
  const std::vector<std::int64_t> steps{1, 3};
  normalise_by_steps(shares, steps, {0.1, 0, 1});
  EXPECT_NEAR(shares[0], 2 * 0.5 / 1, 1e-12);
  EXPECT_NEAR(shares[1], 2 * 0.5 / 2.71, 1e-12);
}

TEST(FedNova, NeedsRounds) {
  PolicyConfig config = named("resident");
  config.weights = WeightRule::nova;
  EXPECT_FALSE(config.validate());
  config = named("fedqueue");
  config.weights = WeightRule::nova;
  EXPECT_TRUE(config.validate());
}

}  // namespace
}  // namespace fedqueue::test
