// Policies that apply updates as they come: FedAsync and FedBuff.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/unit/aggregation/round_builder.h"

namespace fedqueue::test {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

PolicyConfig fedasync() {
  PolicyConfig config;
  config.policy = PolicyKind::fedasync;
  return config;
}

PolicyConfig fedbuff() {
  PolicyConfig config;
  config.policy = PolicyKind::fedbuff;
  return config;
}

RoundState at_version(Version version, std::vector<Arrival> counted) {
  RoundState round;
  round.version = version;
  round.enrolled = 3;
  round.counted = std::move(counted);
  return round;
}

const std::vector<KnownFacility>& three() {
  static const std::vector<KnownFacility> facilities{known("a", 10), known("b", 20),
                                                     known("c", 30)};
  return facilities;
}

TEST(FedAsync, MixesTheArrivingModelByItsStaleness) {
  const auto policy = make_policy(fedasync());
  const Aggregation aggregation = policy->aggregate(at_version(3, {arrival("a", 0, 3)}), three());
  ASSERT_THAT(aggregation.updates, SizeIs(1));
  EXPECT_TRUE(aggregation.rebuild_models);
  EXPECT_NEAR(aggregation.updates[0].weight, 0.3, 1e-12);
  // w = 1, w_k = 2, α = 0.6, τ = 3.
  EXPECT_NEAR(aggregation.keep * 1 + aggregation.updates[0].weight * 2, 1.3, 1e-12);
}

TEST(FedAsync, ClosesWithEveryUpdateAndNeverWithoutOne) {
  const auto policy = make_policy(fedasync());
  EXPECT_FALSE(policy->should_close(at_version(0, {})).close);
  EXPECT_TRUE(policy->should_close(at_version(0, {arrival("a", 0, 0)})).close);
  EXPECT_TRUE(policy->publishes_on_arrival());
  EXPECT_TRUE(policy->answers_after_publish());
}

TEST(FedAsync, SeveralAtOnceAreAppliedOneAfterTheOther) {
  PolicyConfig config = fedasync();
  config.staleness_fn = StalenessFunction::constant();
  const auto policy = make_policy(config);
  const Aggregation aggregation =
      policy->aggregate(at_version(0, {arrival("b", 0, 0), arrival("a", 0, 0)}), three());
  // 0.4·(0.4·w + 0.6·a) + 0.6·b
  EXPECT_THAT(facility_and_staleness(aggregation),
              ElementsAre(std::pair("a", 0), std::pair("b", 0)));
  EXPECT_NEAR(aggregation.keep, 0.16, 1e-12);
  EXPECT_NEAR(aggregation.updates[0].weight, 0.24, 1e-12);
  EXPECT_NEAR(aggregation.updates[1].weight, 0.6, 1e-12);
}

TEST(FedAsync, AddsDeltasWithSharesWhenAsked) {
  PolicyConfig config = fedasync();
  config.mixing = Mixing::deltas;
  config.client_share = ClientShare::samples;
  config.eta_global = 2;
  const auto policy = make_policy(config);
  const Aggregation aggregation = policy->aggregate(at_version(0, {arrival("b", 0, 0)}), three());
  EXPECT_FALSE(aggregation.rebuild_models);
  EXPECT_NEAR(aggregation.updates[0].weight, 2 * 0.6 * 20.0 / 60, 1e-12);
  config.client_share = ClientShare::equal;
  EXPECT_NEAR(make_policy(config)
                  ->aggregate(at_version(0, {arrival("b", 0, 0)}), three())
                  .updates[0]
                  .weight,
              2 * 0.6 / 3, 1e-12);
}

TEST(FedAsync, AStalenessCapCountsInActiveFacilities) {
  PolicyConfig config = fedasync();
  EXPECT_EQ(make_policy(config)->admit(arrival("a", 0, 500), at_version(500, {})).kind,
            Admission::Kind::count)
      << "as published there is no cap";
  config.staleness_max = 4;
  const auto policy = make_policy(config);
  EXPECT_EQ(policy->admit(arrival("a", 0, 12), at_version(12, {})).kind, Admission::Kind::count);
  EXPECT_EQ(policy->admit(arrival("a", 0, 13), at_version(13, {})).kind, Admission::Kind::reject);
}

TEST(FedBuff, AveragesTheBufferByStaleness) {
  PolicyConfig config = fedbuff();
  config.buffer_size = 3;
  const auto policy = make_policy(config);
  RoundState round = at_version(3, {arrival("a", 3, 3), arrival("b", 2, 3), arrival("c", 0, 3)});
  ASSERT_TRUE(policy->should_close(round).close);
  const Aggregation aggregation = policy->aggregate(round, three());
  const std::vector<double> weights = weights_of(aggregation);
  EXPECT_NEAR(weights[0], 1.0 / 3, 1e-12);
  EXPECT_NEAR(weights[1], 1 / std::sqrt(2.0) / 3, 1e-12);
  EXPECT_NEAR(weights[2], 0.5 / 3, 1e-12);
  EXPECT_NEAR(1 + 0.3 * weights[0] + 0.1 * weights[1] - 0.2 * weights[2], 1.0902368927, 1e-9);
  EXPECT_FALSE(policy->answers_after_publish());
}

TEST(FedBuff, CountsAFacilityAsOftenAsItDelivers) {
  PolicyConfig config = fedbuff();
  config.buffer_size = 2;
  const auto policy = make_policy(config);
  RoundState round = at_version(0, {});
  EXPECT_EQ(deliver(*policy, round, arrival("a", 0, 0, 100, 1)).kind, Admission::Kind::count);
  EXPECT_FALSE(policy->should_close(round).close);
  EXPECT_EQ(deliver(*policy, round, arrival("a", 0, 0, 100, 2)).kind, Admission::Kind::count);
  EXPECT_TRUE(policy->should_close(round).close);
  EXPECT_THAT(policy->aggregate(round, three()).updates, SizeIs(2));
}

TEST(FedBuff, WhatCameInBetweenWaitsForTheNextBuffer) {
  PolicyConfig config = fedbuff();
  config.buffer_size = 2;
  const auto policy = make_policy(config);
  RoundState round = at_version(0, {arrival("c", 0, 0), arrival("b", 0, 0), arrival("a", 0, 0)});
  const Aggregation aggregation = policy->aggregate(round, three());
  EXPECT_THAT(facility_and_staleness(aggregation),
              ElementsAre(std::pair("b", 0), std::pair("c", 0)));
  EXPECT_THAT(aggregation.kept_late, ElementsAre(arrival("a", 0, 0).id));
  RoundState next = at_version(1, {});
  next.late = {arrival("a", 0, 0)};
  EXPECT_FALSE(policy->should_close(next).close);
}

TEST(FedBuff, NeverBuffersMoreThanThereAreFacilitiesUnlessTold) {
  const auto policy = make_policy(fedbuff());
  EXPECT_TRUE(policy
                  ->should_close(
                      at_version(0, {arrival("a", 0, 0), arrival("b", 0, 0), arrival("c", 0, 0)}))
                  .close);
  RoundState many = at_version(0, std::vector<Arrival>(9, arrival("a", 0, 0)));
  many.enrolled = 100;
  EXPECT_FALSE(policy->should_close(many).close);
  many.counted.push_back(arrival("b", 0, 0));
  EXPECT_TRUE(policy->should_close(many).close);
}

TEST(FedBuff, ATimerFlushesAPartOfABuffer) {
  const auto policy = make_policy(fedbuff());
  RoundState round = at_version(0, {arrival("a", 0, 0)});
  round.timer_fired = true;
  EXPECT_TRUE(policy->should_close(round).close);
  EXPECT_NEAR(policy->aggregate(round, three()).updates[0].weight, 1, 1e-12);
}

}  // namespace
}  // namespace fedqueue::test
