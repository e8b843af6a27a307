// What Slurm prints, in its many forms.
#include "fedclient/scheduler/slurm_text.h"

#include <gtest/gtest.h>

#include "fedclient/scheduler/command.h"
#include "tests/unit/fedclient/scheduler/fake_slurm.h"

namespace fedqueue::test {
namespace {

class SlurmText : public FakeSlurm {
 protected:
  std::vector<JobView> parsed(const std::string& output, double now_s = 1000) {
    return parse_squeue(output, "fedqueue:mnist:site-a:", "", now_s);
  }
};

TEST(SlurmStates, LongShortDecoratedAndUnknownWords) {
  EXPECT_EQ(slurm_phase("PENDING"), JobPhase::queued);
  EXPECT_EQ(slurm_phase("PD"), JobPhase::queued);
  EXPECT_EQ(slurm_phase("CG"), JobPhase::running);
  EXPECT_EQ(slurm_phase("COMPLETED+"), JobPhase::ended);
  EXPECT_EQ(slurm_phase("CANCELLED by 1000"), JobPhase::ended);
  EXPECT_EQ(slurm_phase("HIBERNATING"), JobPhase::unknown);
  EXPECT_EQ(slurm_state("TO"), "TIMEOUT");
  EXPECT_EQ(slurm_state("CANCELLED by 1000"), "CANCELLED");
  EXPECT_EQ(slurm_state("HIBERNATING"), "HIBERNATING");
}

TEST(SlurmParsable, IdAndCluster) {
  EXPECT_EQ(parse_parsable("10001\n")->id, "10001");
  EXPECT_EQ(parse_parsable("123;gpu\n")->cluster, "gpu");
  EXPECT_EQ(parse_parsable("Welcome to the cluster!\n123\n")->id, "123");
  ASSERT_FALSE(parse_parsable("Submitted batch job"));
  // The job may be there: not a refusal.
  EXPECT_EQ(parse_parsable("").error().code, Code::try_again);
}

TEST(SlurmTime, IsInWholeMinutes) {
  EXPECT_EQ(slurm_time(1), "1");
  EXPECT_EQ(slurm_time(60), "1");
  EXPECT_EQ(slurm_time(61), "2");
  EXPECT_EQ(slurm_time(0), "1");
}

TEST_F(SlurmText, AWaitingJobMayHaveAnExpectedStart) {
  std::vector<JobView> views = parsed(line("7", "PENDING", ours("a"), "Priority", "1600"));
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].token, "a");
  EXPECT_EQ(views[0].reason, "Priority");
  EXPECT_EQ(views[0].expected_wait_s, 600);
  for (const char* none : {"N/A", "Unknown", "None", ""}) {
    views = parsed(line("7", "PENDING", ours("a"), "Priority", none));
    ASSERT_EQ(views.size(), 1u) << none;
    EXPECT_FALSE(views[0].expected_wait_s) << none;
  }
  // An estimate that has passed already is no negative wait.
  EXPECT_EQ(parsed(line("7", "PENDING", ours("a"), "Priority", "400"))[0].expected_wait_s, 0);
  EXPECT_FALSE(parsed(line("7", "RUNNING", ours("a"), "None", "400"))[0].expected_wait_s);
}

TEST_F(SlurmText, RestartsArraysAndOddLines) {
  const std::string output = line("7", "PD", ours("a"), "BeginTime", "N/A", 3) + "\n" +
                             line("8_4", "R", ours("b")) + "\nCLUSTER: gpu\n\n" +
                             line("9_[1-3,5]", "PD", ours("c")) + "\n" +
                             line("10", "R",
                                  "gr\xc3\xbc\xc3\x9f"
                                  "e " +
                                      ours("d"));
  const std::vector<JobView> views = parsed(output);
  ASSERT_EQ(views.size(), 3u);
  EXPECT_EQ(views[0].restart_count, 3);
  EXPECT_EQ(views[1].handle.id, "8_4");
  EXPECT_EQ(views[2].token, "d");
}

TEST(ScontrolFields, AreFoundByTheirWholeName) {
  const std::string text = "JobId=1 ArrayJobId=2 JobState=FAILED Comment=a:JobState=X b";
  EXPECT_EQ(scontrol_field(text, "JobState"), "FAILED");
  EXPECT_EQ(scontrol_field(text, "JobId"), "1");
  EXPECT_FALSE(scontrol_field(text, "State"));
  EXPECT_FALSE(parse_scontrol("").known);
}

TEST(RunCommand, GivesOutputErrorsAndExitCode) {
  CommandLine command;
  command.arguments = {"/bin/sh", "-c", "echo out; echo err >&2; exit 3"};
  Result<CommandResult> result = run_command(command);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "out\n");
  EXPECT_EQ(result->errors, "err\n");
  EXPECT_EQ(result->exit_code, 3);
}

TEST(RunCommand, LimitsTheOutputAndReadsOn) {
  CommandLine command;
  command.arguments = {"/bin/sh", "-c", "head -c 1000000 /dev/zero; exit 4"};
  command.output_bytes_max = 1000;
  Result<CommandResult> result = run_command(command);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output.size(), 1000u);
  EXPECT_EQ(result->exit_code, 4);
}

TEST(RunCommand, PassesArgumentsAsTheyAre) {
  CommandLine command;
  command.arguments = {"/usr/bin/printf", "%s|", "$(id)", "a b", "'", ""};
  Result<CommandResult> result = run_command(command);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "$(id)|a b|'||");
}

TEST(ShellText, CanBePasted) {
  EXPECT_EQ(shell_text({"sbatch", "--comment=a:b", "it's", "$x", ""}),
            "sbatch --comment=a:b 'it'\\''s' '$x' ''");
}

}  // namespace
}  // namespace fedqueue::test
