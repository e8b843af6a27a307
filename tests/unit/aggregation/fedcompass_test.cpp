// FedCompass: who is given how many steps, and when a group is aggregated.
#include <gmock/gmock.h>

#include "tests/unit/aggregation/round_builder.h"

namespace fedqueue::test {
namespace {

using testing::ElementsAre;

std::unique_ptr<const Policy> compass() {
  PolicyConfig config;
  config.policy = PolicyKind::fedcompass;
  return make_policy(config);
}

KnownFacility with_pace(const std::string& name, double pace_s) {
  KnownFacility facility = known(name);
  facility.pace_s = pace_s;
  return facility;
}

Arrival in_group(Arrival arrival, std::int64_t group, double latest_s, double stored_s) {
  arrival.place = {group, latest_s, latest_s};
  arrival.stored_s = stored_s;
  return arrival;
}

RoundState at(double now_s, Version version, std::vector<Arrival> counted,
              std::vector<Group> groups) {
  RoundState round;
  round.now_s = now_s;
  round.version = version;
  round.enrolled = 3;
  round.counted = std::move(counted);
  round.groups = std::move(groups);
  return round;
}

const std::vector<KnownFacility>& three() {
  static const std::vector<KnownFacility> facilities{known("a"), known("b"), known("c")};
  return facilities;
}

TEST(FedCompass, PlacesThreeFacilitiesAsInTheWorkedExample) {
  const auto policy = compass();
  const auto first = policy->place(with_pace("a", 1), {}, 0, 100);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->place, (GroupPlace{0, 200, 250}));
  EXPECT_EQ(first->local_steps, 100);
  std::vector<Group> groups{{0, 200, 250, 1, 1}};

  const auto second = policy->place(with_pace("b", 1.6), groups, 1, 160);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->place, (GroupPlace{0, 200, 250}));
  EXPECT_EQ(second->local_steps, 25);

  const auto third = policy->place(with_pace("c", 2), groups, 1, 200);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->place, (GroupPlace{1, 350, 425}));
  EXPECT_EQ(third->local_steps, 75);
}

TEST(FedCompass, JoinsTheGroupThatAllowsMostStepsAndOfEqualsTheLaterOne) {
  const auto policy = compass();
  const std::vector<Group> groups{{0, 130, 200, 1, 1}, {1, 190, 250, 1, 1}, {2, 190, 260, 1, 1}};
  EXPECT_EQ(policy->place(with_pace("d", 1), groups, 3, 100)->place.group, 2);
  EXPECT_EQ(policy->place(with_pace("d", 1), groups, 3, 100)->local_steps, 90);
  EXPECT_EQ(policy->place(with_pace("d", 4), groups, 3, 100)->local_steps, 22) << "in either";
}

TEST(FedCompass, ANewGroupIsNeverShorterThanTheLeastSteps) {
  const auto policy = compass();
  // The others are back long before a slow one could do the least: est = 250 + 100, 150 s / 50.
  const std::vector<Group> groups{{0, 200, 250, 1, 1}};
  const auto slow = policy->place(with_pace("slow", 50), groups, 1, 200);
  EXPECT_EQ(slow->local_steps, 20);
  EXPECT_EQ(slow->place, (GroupPlace{1, 1200, 1700}));
}

TEST(FedCompass, AFacilityOfUnknownPaceHasNoPlaceAndCountsAlone) {
  const auto policy = compass();
  EXPECT_FALSE(policy->place(known("a"), {}, 0, 100));
  EXPECT_EQ(policy->plan(known("a"), {}, std::nullopt, 0).local_steps, 20);
  const RoundState round =
      at(100, 4, {in_group(arrival("b", 4, 4), 0, 250, 90), arrival("a", 1, 4)},
         {{0, 200, 250, 1, 1}});
  ASSERT_TRUE(policy->should_close(round).close);
  const Aggregation aggregation = policy->aggregate(round, three());
  EXPECT_THAT(facility_and_staleness(aggregation), ElementsAre(std::pair("a", 3)));
  EXPECT_NEAR(aggregation.updates[0].weight, 0.9 * 0.5 / 3, 1e-12);
  EXPECT_NEAR(aggregation.keep, 1 - 0.15, 1e-12);
  EXPECT_EQ(aggregation.kept_late.size(), 1u) << "the member of group 0 waits";
  EXPECT_THAT(aggregation.closed_groups, ElementsAre());
}

TEST(FedCompass, AGroupIsAggregatedWhenItsLastMemberIsIn) {
  const auto policy = compass();
  const Arrival one = in_group(arrival("a", 4, 4), 0, 250, 90);
  const Arrival two = in_group(arrival("b", 4, 4), 0, 250, 120);
  EXPECT_FALSE(policy->should_close(at(100, 4, {one}, {{0, 200, 250, 1, 1}})).close);
  const RoundState full = at(120, 4, {one, two}, {{0, 200, 250, 1, 0}});
  ASSERT_TRUE(policy->should_close(full).close);
  const Aggregation aggregation = policy->aggregate(full, three());
  EXPECT_THAT(weights_of(aggregation),
              ElementsAre(testing::DoubleNear(0.3, 1e-12), testing::DoubleNear(0.3, 1e-12)));
  EXPECT_NEAR(aggregation.keep, 0.4, 1e-12);
  EXPECT_THAT(aggregation.closed_groups, ElementsAre(0));
  EXPECT_TRUE(aggregation.rebuild_models);
}

TEST(FedCompass, AtItsLatestTimeAGroupGoesOnWithoutTheMissing) {
  const auto policy = compass();
  const Arrival one = in_group(arrival("a", 4, 4), 0, 250, 90);
  EXPECT_FALSE(policy->should_close(at(249, 4, {one}, {{0, 200, 250, 1, 1}})).close);
  EXPECT_TRUE(policy->should_close(at(250, 4, {one}, {{0, 200, 250, 1, 1}})).close);
}

TEST(FedCompass, AMemberThatComesTooLateIsAnsweredAtOnceAndCountsWithTheNextGroup) {
  const auto policy = compass();
  const Arrival late = in_group(arrival("c", 2, 4), 0, 250, 300);
  const Arrival one = in_group(arrival("a", 4, 4), 1, 400, 290);
  const RoundState open = at(300, 4, {one}, {{1, 350, 400, 1, 1}});
  const Admission admission = policy->admit(late, open);
  EXPECT_EQ(admission.kind, Admission::Kind::count);
  EXPECT_TRUE(admission.late);
  EXPECT_TRUE(admission.answer_now);
  EXPECT_FALSE(policy->admit(one, open).answer_now);
  EXPECT_FALSE(policy->should_close(at(300, 4, {one, late}, {{1, 350, 400, 1, 1}})).close);
  const RoundState complete = at(310, 4, {one, late}, {{1, 350, 400, 1, 0}});
  EXPECT_THAT(facility_and_staleness(policy->aggregate(complete, three())),
              ElementsAre(std::pair("a", 0), std::pair("c", 2)));
}

TEST(FedCompass, LateOnesAreNotKeptWaitingForNobody) {
  const auto policy = compass();
  const Arrival late = in_group(arrival("c", 2, 4), 0, 250, 300);
  EXPECT_TRUE(policy->should_close(at(300, 4, {late}, {})).close);
}

}  // namespace
}  // namespace fedqueue::test
