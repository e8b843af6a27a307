#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "core/base/file.h"
#include "simulation/check/suite.h"

namespace fedqueue::simulation {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Check, ASeedTellsTheSameStoryTwiceWithAndWithoutAListener) {
  const SeedResult silent = play_seed(5);
  int lines = 0;
  const SeedResult heard =
      play_seed(5, [&](Instant, const std::string&, const std::string&) { ++lines; });
  EXPECT_EQ(silent.hash, heard.hash);
  EXPECT_GT(lines, 20);
  EXPECT_NE(silent.hash, play_seed(6).hash);
}

TEST(Check, APlantedBugIsFoundAndGoneAfterwards) {
  const SeedResult with = play_seed(0, {}, points::Bug::reply_before_commit);
  EXPECT_FALSE(with.violations.empty());
  EXPECT_THAT(play_seed(0).violations, IsEmpty());
}

TEST(Check, TheSuiteSumsUpWhatItsSeedsFound) {
  SuiteOptions options;
  options.seeds = 6;
  options.further_seeds = {100};
  options.threads = 2;
  options.marks = options.planted_bugs = false;
  const SuiteResult result = run_suite(options);
  EXPECT_EQ(result.seeds, 7u);
  EXPECT_EQ(result.violations(), 0u);
  EXPECT_TRUE(result.good());
  EXPECT_GT(result.virtual_s, 600);
  EXPECT_GT(result.seeds_with_mark[static_cast<std::size_t>(points::Mark::agent_ended_by_run)], 0u);
}

TEST(Check, AMarkThatNoSeedReachesIsAFailure) {
  SuiteOptions options;
  options.seeds = 1;
  options.planted_bugs = false;
  const SuiteResult result = run_suite(options);
  EXPECT_FALSE(result.marks_missed.empty());
  EXPECT_FALSE(result.good());
}

TEST(Seeds, AreReadWithCommentsAndAddedOnce) {
  std::string pattern = (std::filesystem::temp_directory_path() / "seeds-XXXXXX").string();
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  const std::filesystem::path file = std::filesystem::path(pattern) / "failing.txt";
  EXPECT_THAT(*read_seeds(file), IsEmpty());
  ASSERT_TRUE(write_file_atomic(file, "# known\n7  # a reason\n\n"));
  ASSERT_TRUE(add_seeds(file, {{7, {{Instant{}, "again"}}}, {9, {{Instant{}, "another"}}}}));
  EXPECT_THAT(*read_seeds(file), ElementsAre(7u, 9u));
  ASSERT_TRUE(write_file_atomic(file, "seven\n"));
  EXPECT_EQ(read_seeds(file).error().code, Code::usage);
  std::filesystem::remove_all(pattern);
}

TEST(Seeds, ACommitIsASeed) {
  EXPECT_EQ(*seed_of_commit("00000000000000fffffffffffffffffffffffff0"), 0xfu);
  EXPECT_FALSE(seed_of_commit("main"));
}

TEST(Reference, FollowsTheFormulasOfTheServerSteps) {
  const Bytes current = to_bytes(std::vector<float>{1, 2});
  const auto delta = std::make_shared<const Bytes>(to_bytes(std::vector<float>{1, -1}));
  ReduceStarted plan;
  plan.updates.push_back({UpdateId("a.1.0.1"), FacilityId("a"), 0, 0, 0.5});
  ReferenceServer server;
  EXPECT_THAT(server.next(plan, current, {delta}, {}), ElementsAre(1.5, 1.5));
  plan.step.optimizer = ServerOptimizer::momentum;
  plan.step.momentum = 0.5;
  EXPECT_THAT(server.next(plan, current, {delta}, {}), ElementsAre(1.5, 1.5));
  server.accept();
  EXPECT_THAT(server.next(plan, current, {delta}, {}), ElementsAre(1.75, 1.25));
  plan.step = {};
  plan.rebuild_models = true;
  plan.keep = 0.5;
  const auto base = std::make_shared<const Bytes>(to_bytes(std::vector<float>{3, 3}));
  EXPECT_THAT(server.next(plan, current, {delta}, {base}), ElementsAre(2.5, 2));
}

// As ServerOptimizers.HelocoBendsTheUpdateTowardsTheMomentum: against the momentum (1, 0) the
// update (−1, 0) becomes −0.875.
TEST(Reference, BendsHelocosUpdatesAndHandsOutTheLookAhead) {
  const auto delta = [](float x) {
    return std::make_shared<const Bytes>(to_bytes(std::vector<float>{x, 0}));
  };
  ReduceStarted plan;
  plan.updates.push_back({UpdateId("a.1.0.1"), FacilityId("a"), 0, 0, 1});
  plan.step = {.optimizer = ServerOptimizer::heloco, .learning_rate = 1, .momentum = 0.9};
  ReferenceServer server;
  const Bytes begin = to_bytes(std::vector<float>{0, 0});
  const std::vector<double> first = server.next(plan, begin, {delta(10)}, {});
  EXPECT_NEAR(first[0], 10 + 0.9 + 0.9, 1e-9);  // m = 1
  server.accept();
  const std::vector<double> second = server.next(plan, begin, {delta(-1)}, {});
  const double momentum = 0.9 - 0.1 * 0.875;
  EXPECT_NEAR(second[0], 10.9 - 0.875 + 2 * 0.9 * momentum, 1e-8);
  EXPECT_EQ(second[1], 0);
  EXPECT_FALSE(server.near_an_edge());
}

TEST(Reference, EitherSideOfAnAngleWithinRoundingIsRight) {
  const auto delta = [](float x, float y) {
    return std::make_shared<const Bytes>(to_bytes(std::vector<float>{x, y}));
  };
  ReduceStarted plan;
  plan.updates.push_back({UpdateId("a.1.0.1"), FacilityId("a"), 0, 0, 1});
  plan.step = {.optimizer = ServerOptimizer::heloco, .learning_rate = 1, .momentum = 0.9};
  ReferenceServer server;
  const Bytes begin = to_bytes(std::vector<float>{0, 0});
  (void)server.next(plan, begin, {delta(10, 0)}, {});
  server.accept();
  const auto own = server.next(plan, begin, {delta(0, 1)}, {});
  EXPECT_TRUE(server.near_an_edge());
  const auto other = server.next(plan, begin, {delta(0, 1)}, {}, Side::other);
  EXPECT_GT(own[0], other[0]) << "bent towards the momentum, and left alone";
}

// c = 0.5, one of two facilities with the difference 0.5: 0.75, whatever its update's weight.
TEST(Reference, ControlVariatesHaveAWeightOfTheirOwn) {
  ReduceStarted plan;
  plan.updates.push_back({UpdateId("a.1.0.1"), FacilityId("a"), 0, 0, 0.25});
  plan.control_weight = 0.5;
  plan.step.optimizer = ServerOptimizer::momentum;
  ReferenceServer server(true);
  const auto delta = std::make_shared<const Bytes>(to_bytes(std::vector<float>{1, 0.5F}));
  EXPECT_THAT(server.next(plan, to_bytes(std::vector<float>{1, 0.5F}), {delta}, {}),
              ElementsAre(1.25, 0.75));
}

}  // namespace
}  // namespace fedqueue::simulation
