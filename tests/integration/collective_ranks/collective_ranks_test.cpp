// Sums over real ranks under mpirun, flat and in two levels.
#include <gmock/gmock.h>

#include "processes.h"

namespace fedqueue {
namespace {

class CollectiveRanksTest : public ::testing::Test {
 protected:
  CollectiveRanksTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fedqueue-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
  }
  ~CollectiveRanksTest() override { std::filesystem::remove_all(directory_); }

  void SetUp() override {
    if (std::string(MPIRUN).empty()) GTEST_SKIP() << "mpirun is not installed";
  }

  // What rank 0 prints; `ranks_per_node` 0 takes the nodes as they are.
  std::string sums(int ranks, int ranks_per_node) {
    const std::string nodes =
        ranks_per_node == 0 ? "" : "env FEDQUEUE_RANKS_PER_NODE=" + std::to_string(ranks_per_node);
    Process process(directory_, std::to_string(started_++),
                    nodes + " " + MPIRUN + " -n " + std::to_string(ranks) + " " + COLLECTIVE_RANK);
    EXPECT_EQ(process.wait(), 0) << process.output();
    const std::string output = process.output();
    EXPECT_THAT(output, ::testing::HasSubstr("digest "));
    return output;
  }

  std::filesystem::path directory_;
  int started_ = 0;
};

TEST_F(CollectiveRanksTest, BegunSumsAreRightAndHaveTheSameBitsEachTime) {
  for (const int ranks : {2, 3}) EXPECT_EQ(sums(ranks, 0), sums(ranks, 0)) << ranks << " ranks";
}

// 4 = 2 + 2, 5 = 2 + 2 + 1.
TEST_F(CollectiveRanksTest, SumsWithinNodesAndThenBetweenTheirLeaders) {
  for (const int ranks : {4, 5}) EXPECT_EQ(sums(ranks, 2), sums(ranks, 2)) << ranks << " ranks";
}

TEST_F(CollectiveRanksTest, OneRankOnEachNodeNeedsNoLevels) { EXPECT_EQ(sums(3, 1), sums(3, 0)); }

}  // namespace
}  // namespace fedqueue
