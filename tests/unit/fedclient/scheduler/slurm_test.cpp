// The scheduler with scripted commands: what is asked of Slurm, and how its answers are taken.
#include <gmock/gmock.h>

#include "tests/unit/fedclient/scheduler/fake_slurm.h"

namespace fedqueue::test {
namespace {

using testing::HasSubstr;
using testing::Not;

using SlurmTest = FakeSlurm;

TEST_F(SlurmTest, SubmitsWithCommentLimitAndOptions) {
  SlurmScheduler scheduler(settings());
  Result<JobHandle> handle = scheduler.submit(request());
  ASSERT_TRUE(handle) << handle.error().message;
  EXPECT_EQ(handle->id, "10001");
  EXPECT_EQ(handle->cluster, "");
  ASSERT_EQ(calls("sbatch").size(), 2u);  // --help, and the submission
  EXPECT_EQ(calls("sbatch")[1],
            "sbatch --parsable --comment=fedqueue:mnist:site-a:abc --job-name=fedqueue-mnist "
            "--partition=gpu --time=11 --output=slurm-%j.out --open-mode=append job.sbatch");
}

TEST_F(SlurmTest, UsesThePluginsOptionsWhereThereIsThePlugin) {
  sbatch("echo 10001", "      --fed-run=NAME   [fedqueue] the run");
  SlurmScheduler scheduler(settings());
  ASSERT_TRUE(scheduler.submit(request()));
  EXPECT_THAT(calls("sbatch").back(), HasSubstr("--fed-run=mnist job.sbatch"));
  ASSERT_TRUE(scheduler.submit(request()));
  EXPECT_EQ(calls("sbatch").size(), 3u);  // asked for help once
}

TEST_F(SlurmTest, ItsEnvironmentIsCleanAndTheJobsIsComplete) {
  sbatch("env > '" + (directory_ / "env").string() + "'; echo 10001");
  SlurmScheduler scheduler(settings());
  ASSERT_TRUE(scheduler.submit(request()));
  const std::string environment = read_file(directory_ / "env").value();
  EXPECT_THAT(environment, HasSubstr("FEDQUEUE_PLAN_KEY=abc"));
  EXPECT_THAT(environment, HasSubstr("SLURM_CONF=/etc/slurm/slurm.conf"));
  EXPECT_THAT(environment, Not(HasSubstr("SLURM_JOB_ID")));
  EXPECT_THAT(environment, Not(HasSubstr("SQUEUE_STATES")));
  EXPECT_THAT(environment, Not(HasSubstr("TZ=")));  // the job keeps its own zone
}

TEST_F(SlurmTest, EveryLaterCommandGoesToTheClusterOfTheJob) {
  sbatch("echo '123;gpu'");
  SlurmScheduler scheduler(settings());
  Result<JobHandle> handle = scheduler.submit(request());
  ASSERT_TRUE(handle);
  EXPECT_EQ(handle->cluster, "gpu");
  squeue_shows({line("123", "PENDING", ours("abc"))});
  Result<std::vector<JobView>> views = scheduler.poll();
  ASSERT_TRUE(views);
  ASSERT_EQ(views->size(), 1u);
  EXPECT_EQ(views->at(0).handle, *handle);
  ASSERT_TRUE(scheduler.cancel(*views));
  for (const std::string& call : calls("squeue")) EXPECT_THAT(call, HasSubstr("squeue -M gpu "));
  EXPECT_EQ(calls("scancel"), std::vector<std::string>{"scancel -M gpu 123"});
}

TEST_F(SlurmTest, OnePollIsOneQueryWhateverTheNumberOfJobs) {
  squeue_shows({line("1", "RUNNING", ours("a")), line("2", "PENDING", ours("b")),
                line("3", "PD", "somebody:else"), line("4", "R", "fedqueue:mnist:site-b:c")});
  SlurmScheduler scheduler(settings());
  Result<std::vector<JobView>> views = scheduler.poll();
  ASSERT_TRUE(views);
  EXPECT_EQ(views->size(), 2u);
  EXPECT_EQ(calls("squeue").size(), 1u);
  EXPECT_THAT(calls("squeue")[0], HasSubstr("--me"));
}

TEST_F(SlurmTest, AJobIsFoundByItsExactToken) {
  squeue_shows({line("1", "RUNNING", ours("abcd")), line("2", "CANCELLED", ours("abc")),
                line("3", "PENDING", ours("abc"))});
  SlurmScheduler scheduler(settings());
  Result<std::optional<JobView>> found = scheduler.find_by_token("abc");
  ASSERT_TRUE(found);
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->handle.id, "3");
  found = scheduler.find_by_token("ab");
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->has_value());
}

TEST_F(SlurmTest, NothingIsCancelledThatIsNotOurs) {
  squeue_shows({line("1", "RUNNING", ours("a")), line("2", "RUNNING", ours("other"))});
  SlurmScheduler scheduler(settings());
  JobView mine;
  mine.handle.id = "1";
  mine.token = "a";
  JobView reused;  // the id belongs to another job by now
  reused.handle.id = "2";
  reused.token = "b";
  JobView gone;
  gone.handle.id = "3";
  gone.token = "c";
  Result<CancelReport> report = scheduler.cancel({mine, reused, gone});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->cancelled, std::vector<std::string>{"1"});
  EXPECT_EQ(report->not_ours, (std::vector<std::string>{"2", "3"}));
  EXPECT_EQ(calls("scancel"), std::vector<std::string>{"scancel 1"});
}

TEST_F(SlurmTest, ManyJobsAreCancelledInChunks) {
  std::vector<std::string> lines;
  std::vector<JobView> jobs;
  for (int i = 1; i <= 120; ++i) {
    const std::string id = std::to_string(i);
    lines.push_back(line(id, i % 2 == 0 ? "PENDING" : "RUNNING", ours("t" + id)));
    JobView job;
    job.handle.id = id;
    job.token = "t" + id;
    jobs.push_back(job);
  }
  squeue_shows(lines);
  SlurmScheduler scheduler(settings());
  Result<CancelReport> report = scheduler.cancel(jobs);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cancelled.size(), 120u);
  ASSERT_EQ(calls("scancel").size(), 3u);
  for (const std::string& call : calls("scancel")) EXPECT_LE(split(call, ' ').size(), 51u);
}

TEST_F(SlurmTest, ALimitIsNotARefusal) {
  SlurmScheduler scheduler(settings());
  const auto code_of = [&](const std::string& complaint) {
    sbatch("echo 'sbatch: error: " + complaint + "' >&2; exit 1");
    Result<JobHandle> handle = scheduler.submit(request());
    EXPECT_FALSE(handle);
    EXPECT_THAT(handle.error().message, HasSubstr(complaint));
    return handle.error().code;
  };
  EXPECT_EQ(code_of("AssocMaxSubmitJobLimit"), Code::scheduler_limit);
  EXPECT_EQ(code_of("QOSMaxSubmitJobPerUserLimit"), Code::scheduler_limit);
  EXPECT_EQ(code_of("Batch job submission failed: Job violates accounting/QOS policy (job submit "
                    "limit, user size and/or time limits)"),
            Code::scheduler_limit);
  EXPECT_EQ(code_of("Batch job submission failed: Unable to contact slurm controller (connect "
                    "failure)"),
            Code::try_again);
  EXPECT_EQ(code_of("Batch job submission failed: Socket timed out on send/recv operation"),
            Code::try_again);
  EXPECT_EQ(code_of("invalid partition specified: gpuu"), Code::scheduler_refused);
  EXPECT_EQ(code_of("unrecognized option --frobnicate"), Code::scheduler_refused);
}

TEST_F(SlurmTest, AMissingCommandSaysSo) {
  std::filesystem::remove(directory_ / "sbatch");
  SlurmSettings with = settings();
  with.environment["PATH"] = directory_.string();
  SlurmScheduler scheduler(with);
  Result<JobHandle> handle = scheduler.submit(request());
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Code::scheduler_missing);
}

TEST_F(SlurmTest, ACommandThatHangsIsKilled) {
  script("squeue", "exec sleep 1000");
  sbatch("sleep 1000");
  SlurmSettings with = settings();
  with.command_time = with.submit_time = std::chrono::milliseconds(100);
  SlurmScheduler scheduler(with);
  Result<std::vector<JobView>> views = scheduler.poll();
  ASSERT_FALSE(views);
  EXPECT_EQ(views.error().code, Code::try_again);
  Result<JobHandle> handle = scheduler.submit(request());
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().code, Code::try_again);  // it may be there or not
}

TEST_F(SlurmTest, TheEndOfAJobComesFromTheController) {
  script("scontrol",
         "echo 'JobId=10001 JobName=fed UserId=u(1000) JobState=TIMEOUT Reason=TimeLimit "
         "Dependency=(null) Requeue=1 Restarts=2 BatchFlag=1 ExitCode=0:15 NodeList=n[1-2] "
         "Comment=fedqueue:mnist:site-a:abc'");
  SlurmScheduler scheduler(settings());
  Result<JobOutcome> outcome = scheduler.outcome({"10001", ""});
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->known);
  EXPECT_EQ(outcome->phase, JobPhase::ended);
  EXPECT_EQ(outcome->state, "TIMEOUT");
  EXPECT_EQ(outcome->restart_count, 2);
  EXPECT_EQ(outcome->detail, "reason TimeLimit, exit code 0:15, on n[1-2]");
}

TEST_F(SlurmTest, WorksWithoutAccounting) {
  SlurmScheduler scheduler(settings());
  for (int i = 0; i < 3; ++i) {
    Result<JobOutcome> outcome = scheduler.outcome({"10001", ""});
    ASSERT_TRUE(outcome);
    EXPECT_FALSE(outcome->known);
  }
  EXPECT_EQ(calls("sacct").size(), 1u);  // not asked again
}

TEST_F(SlurmTest, AHangingSacctIsAskedOnce) {
  script("sacct", "exec sleep 1000");
  SlurmSettings with = settings();
  with.command_time = std::chrono::milliseconds(300);
  SlurmScheduler scheduler(with);
  for (int i = 0; i < 3; ++i) {
    Result<JobOutcome> outcome = scheduler.outcome({"10001", ""});
    ASSERT_TRUE(outcome);
  }
  EXPECT_EQ(calls("sacct").size(), 1u);
}

TEST_F(SlurmTest, AccountingHelpsWhereItWorks) {
  script("sacct", "echo 'CANCELLED by 1000|0:0'");
  SlurmScheduler scheduler(settings());
  Result<JobOutcome> outcome = scheduler.outcome({"10001", ""});
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->state, "CANCELLED");
  EXPECT_EQ(outcome->phase, JobPhase::ended);
}

TEST_F(SlurmTest, ASilentControllerIsNotAnEmptyQueue) {
  script("squeue",
         "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; "
         "exit 1");
  SlurmScheduler scheduler(settings());
  Result<std::vector<JobView>> views = scheduler.poll();
  ASSERT_FALSE(views);
  EXPECT_EQ(views.error().code, Code::try_again);
}

TEST_F(SlurmTest, QueriesAskForTimesWithoutAZone) {
  script("squeue", "echo \"$TZ $SLURM_TIME_FORMAT\" > '" + (directory_ / "zone").string() + "'");
  SlurmScheduler scheduler(settings());
  ASSERT_TRUE(scheduler.poll());
  EXPECT_EQ(read_file(directory_ / "zone").value(), "UTC %s\n");
}

}  // namespace
}  // namespace fedqueue::test
