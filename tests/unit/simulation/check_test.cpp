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

}  // namespace
}  // namespace fedqueue::simulation
