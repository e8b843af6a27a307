// The loop with a real state directory.
#include "fedclient/agent/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "tests/unit/fedclient/agent/played_site.h"

namespace fedqueue::test {
namespace {

using testing::HasSubstr;

class AgentLoopTest : public testing::Test {
 protected:
  AgentLoopTest() {
    std::string pattern = testing::TempDir() + "agent-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    settings_.profile.run = RunId("mnist");
    settings_.profile.facility = FacilityId("site-a");
    settings_.profile.script = "job.sbatch";
    settings_.now = [this] { return now_; };
    settings_.sleep_until = [this](Instant until) { now_ = std::max(now_, until); };
  }
  ~AgentLoopTest() override { std::filesystem::remove_all(directory_); }

  int run_once(const std::string& signal = "") {
    const AgentStore store(directory_);
    Result<AgentState> state = store.load();
    EXPECT_TRUE(state) << state.error().message;
    AgentSettings agent;
    agent.once = true;
    agent.seed = ++seed_;
    AgentMachine machine(agent, *state, now_);
    settings_.signal = [&] { return signal; };
    return run_agent(machine, scheduler_, server_, store, settings_, Log());
  }

  std::filesystem::path directory_;
  AgentLoopSettings settings_;
  PlayedScheduler scheduler_;
  PlayedServer server_;
  Instant now_{};
  std::uint64_t seed_ = 0;
};

TEST_F(AgentLoopTest, KeepsItsJobsInTheStateDirectory) {
  EXPECT_EQ(run_once(), 0);
  Result<AgentState> state = AgentStore(directory_).load();
  ASSERT_TRUE(state);
  ASSERT_EQ(state->jobs.size(), 1u);
  EXPECT_EQ(state->jobs[0].handle.id, "10001");
  EXPECT_FALSE(state->intent && state->intent->planned);
  EXPECT_EQ(run_once(), 0);
  EXPECT_EQ(scheduler_.submissions, 1);
}

TEST_F(AgentLoopTest, TheEndComesWithTheLastWordsOfAFailedJob) {
  run_once();
  const std::string token = scheduler_.jobs[0].view.token;
  ASSERT_TRUE(write_file_atomic(
      AgentStore(directory_).job_directory(token) / "slurm-10001.out",
      "starting\nfedclient-train: error while loading shared libraries: libtorch.so\n\n"));
  PlayedScheduler::end(scheduler_.jobs[0], "FAILED");
  run_once();
  ASSERT_EQ(server_.ends.count("10001.0"), 1u);
  EXPECT_THAT(server_.ends.at("10001.0").detail, HasSubstr("shared libraries: libtorch.so"));
}

TEST_F(AgentLoopTest, OldFoldersOfJobsThatAreOverGo) {
  const AgentStore store(directory_);
  const auto begin = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  for (int i = 0; i < 5; ++i) {
    const std::filesystem::path folder = store.job_directory("old-" + std::to_string(i));
    std::filesystem::create_directories(folder);
    std::filesystem::last_write_time(folder, begin + std::chrono::minutes(i));
  }
  settings_.job_folders_kept = 3;
  run_once();
  const std::string token = scheduler_.jobs[0].view.token;
  EXPECT_TRUE(std::filesystem::exists(store.job_directory("old-0"))) << "nothing has ended yet";
  PlayedScheduler::end(scheduler_.jobs[0], "COMPLETED");
  run_once();
  EXPECT_FALSE(std::filesystem::exists(store.job_directory("old-0")));
  EXPECT_FALSE(std::filesystem::exists(store.job_directory("old-2")));
  EXPECT_TRUE(std::filesystem::exists(store.job_directory("old-3")));
  EXPECT_TRUE(std::filesystem::exists(store.job_directory(token))) << "the newest is kept";
}

TEST_F(AgentLoopTest, AFolderOfALiveJobStaysHoweverOldItIs) {
  const AgentStore store(directory_);
  run_once();
  const std::filesystem::path live = store.job_directory(scheduler_.jobs[0].view.token);
  std::filesystem::last_write_time(
      live, std::filesystem::file_time_type::clock::now() - std::chrono::hours(100));
  store.remove_old_jobs(*store.load(), 0);
  EXPECT_TRUE(std::filesystem::exists(live));
}

TEST_F(AgentLoopTest, BrokenStateIsNotTakenForNoState) {
  ASSERT_TRUE(write_file_atomic(directory_ / "jobs.json", "{ half of"));
  Result<AgentState> state = AgentStore(directory_).load();
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::storage);
  ASSERT_TRUE(write_file_atomic(directory_ / "jobs.json", R"({"jobs":[{"token":7}]})"));
  EXPECT_FALSE(AgentStore(directory_).load());
}

TEST_F(AgentLoopTest, AStateDirectoryThatCannotBeWrittenStopsBeforeSbatch) {
  const AgentStore store(directory_ / "file" / "below");
  ASSERT_TRUE(write_file_atomic(directory_ / "file", "in the way"));
  AgentMachine machine({}, {}, now_);
  EXPECT_EQ(run_agent(machine, scheduler_, server_, store, settings_, Log()), 62);
  EXPECT_EQ(scheduler_.submissions, 0);
}

TEST_F(AgentLoopTest, ASignalEndsItAndKeepsTheJobs) {
  run_once();
  EXPECT_EQ(run_once("SIGTERM"), 0);
  EXPECT_EQ(scheduler_.cancels, 0);
}

TEST(JobRequestTest, CarriesThePlanAndNamesItsOwner) {
  AgentJobProfile profile;
  profile.run = RunId("mnist");
  profile.facility = FacilityId("site-a");
  profile.script = "job.sbatch";
  profile.time_limit_s = 3600;
  profile.environment["FEDQUEUE_KIT"] = "kit";
  Intent intent{"abc123", true, {}};
  intent.plan.time_limit_s = 600;
  const AgentStore store("state");
  const JobRequest request = job_request(profile, store, intent);
  EXPECT_EQ(request.comment, "fedqueue:mnist:site-a:abc123");
  EXPECT_EQ(request.time_limit_s, 600);
  EXPECT_EQ(request.environment.at("FEDQUEUE_PLAN_KEY"), "abc123");
  EXPECT_EQ(request.environment.at("FEDQUEUE_JOB_DIRECTORY"), "state/jobs/abc123");
  EXPECT_EQ(request.environment.at("FEDQUEUE_KIT"), "kit");
  intent.plan.time_limit_s = 7200;  // never longer than the site's
  EXPECT_EQ(job_request(profile, store, intent).time_limit_s, 3600);
  intent.plan.time_limit_s = 0;
  EXPECT_EQ(job_request(profile, store, intent).time_limit_s, 3600);
}

}  // namespace
}  // namespace fedqueue::test
