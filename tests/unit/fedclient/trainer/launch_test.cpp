#include "fedclient/collective/launch.h"

#include <gmock/gmock.h>

#include <map>

namespace fedqueue {
namespace {

using ::testing::HasSubstr;

Environment with(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Launch, TasksThatEachBelieveToBeAloneAreRefused) {
  const auto environment = with({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}});
  const Status status = check_launch(0, 1, environment);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::launch);
  EXPECT_THAT(status.error().message, HasSubstr("rank 0 of 1, but Slurm started 2 tasks"));
  EXPECT_THAT(status.error().cure, HasSubstr("srun --mpi=pmix"));
  EXPECT_TRUE(check_launch(1, 2, environment));
}

TEST(Launch, ABatchScriptItselfIsOneProcessWhateverTheJobHas) {
  EXPECT_TRUE(check_launch(0, 1, with({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}})));
}

TEST(Launch, MpirunInsideAJobCountsItsOwnProcesses) {
  const auto environment = with({{"SLURM_STEP_ID", "0"},
                                 {"SLURM_STEP_NUM_TASKS", "1"},
                                 {"SLURM_NTASKS", "4"},
                                 {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_TRUE(check_launch(0, 4, environment));
  EXPECT_FALSE(check_launch(0, 1, environment));
}

TEST(Launch, OpenMpiIsNotStartedUnderALauncherThatWouldKillIt) {
  const auto pmi2 = with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  EXPECT_FALSE(started_by_mpi_launcher(pmi2, true));
  EXPECT_TRUE(started_by_mpi_launcher(pmi2, false));
  EXPECT_FALSE(check_launch(0, 1, pmi2));
  EXPECT_TRUE(started_by_mpi_launcher(with({{"PMIX_RANK", "1"}}), true));
}

TEST(Launch, AProcessStartedByHandIsAlone) { EXPECT_TRUE(check_launch(0, 1, with({}))); }

}  // namespace
}  // namespace fedqueue
