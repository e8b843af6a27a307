#include "fedclient/trainer/queue_record.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
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

Result<std::string> never_asked(const std::string&) {
  ADD_FAILURE() << "scontrol was asked";
  return std::string();
}

const std::map<std::string, std::string> kFromThePlugin = {
    {"SLURM_JOB_ID", "10001"},     {"FED_JOB_ID", "10001"},     {"FED_SUBMIT_TIME", "1000"},
    {"FED_ELIGIBLE_TIME", "1100"}, {"FED_START_TIME", "1160"},  {"FED_END_TIME", "4760"},
    {"FED_RESTART_COUNT", "2"},    {"FED_TIME_LIMIT_S", "3600"}};

TEST(JobRecord, ComesFromThePlugin) {
  const auto record = read_job_record(with(kFromThePlugin), never_asked, 1170);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->attempt.str(), "10001.2");
  EXPECT_EQ(record->source, "plugin");
  EXPECT_EQ(record->queue.queue_wait_s, 60);  // the hold of 100 s is not the queue's
  EXPECT_EQ(record->queue.held_s, 100);
  EXPECT_EQ(record->queue.time_limit_s, 3600);
  EXPECT_EQ(record->queue.remaining_s, 4760 - 1170);
}

TEST(JobRecord, ABadOptionFoundByThePluginIsAUsageError) {
  auto variables = kFromThePlugin;
  variables["FED_ERROR"] = "--fed-run: 'My Run' is no name";
  const auto record = read_job_record(with(variables), never_asked, 0);
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code, Code::usage);
  EXPECT_THAT(record.error().message, HasSubstr("My Run"));
}

constexpr const char* kScontrol =
    "JobId=41 JobName=other UserId=a(1) Restarts=0 SubmitTime=1 EligibleTime=1 StartTime=2 "
    "EndTime=Unknown Comment=\n"
    "JobId=42 JobName=train UserId=a(1) Requeue=1 Restarts=3 TimeLimit=01:00:00 SubmitTime=1000 "
    "EligibleTime=1000 StartTime=1500 EndTime=5100 Comment=StartTime=9 Restarts=7\n";

TEST(JobRecord, WithoutThePluginScontrolIsAskedOnce) {
  int asked = 0;
  const auto record = read_job_record(
      with({{"SLURM_JOB_ID", "42"}}),
      [&](const std::string& id) -> Result<std::string> {
        ++asked;
        EXPECT_EQ(id, "42");
        return std::string(kScontrol);
      },
      1600);
  ASSERT_TRUE(record);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(record->source, "scontrol");
  EXPECT_EQ(record->attempt.str(), "42.3");  // the user's comment does not count
  EXPECT_EQ(record->queue.queue_wait_s, 500);
  EXPECT_EQ(record->queue.remaining_s, 3500);
}

TEST(JobRecord, TheRecordOfAnotherJobIsNotBelieved) {
  auto variables = kFromThePlugin;  // inherited from the job that submitted this one
  variables["SLURM_JOB_ID"] = "42";
  const auto record = read_job_record(
      with(variables), [](const std::string&) { return Result<std::string>(kScontrol); }, 1600);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->source, "scontrol");
}

TEST(JobRecord, AFailingSchedulerLeavesAJobWithoutARecord) {
  const auto record = read_job_record(
      with({{"SLURM_JOB_ID", "42"}, {"SLURM_RESTART_COUNT", "1"}}),
      [](const std::string&) -> Result<std::string> {
        return Error{Code::scheduler, "down", ""};
      },
      1600);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->attempt.str(), "42.1");
  EXPECT_FALSE(record->queue.queue_wait_s);
  EXPECT_EQ(record->source, "none");
}

TEST(JobRecord, OutsideAJobTheAttemptHasAnIdOfItsOwn) {
  const auto record = read_job_record(with({}), never_asked, 1600);
  ASSERT_TRUE(record);
  EXPECT_TRUE(parse_attempt_id(record->attempt.str()));
  EXPECT_FALSE(record->queue.remaining_s);
}

class ScontrolTest : public ::testing::Test {
 protected:
  ScontrolTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fedqueue-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    path_ = ::getenv("PATH");
    ::setenv("PATH", (directory_.string() + ":" + path_).c_str(), 1);
  }
  ~ScontrolTest() override {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(directory_);
  }
  void make_scontrol(const std::string& script) {
    std::ofstream(directory_ / "scontrol") << "#!/bin/sh\n" << script;
    std::filesystem::permissions(directory_ / "scontrol", std::filesystem::perms::owner_all);
  }
  std::filesystem::path directory_;
  std::string path_;
};

TEST_F(ScontrolTest, IsAskedForSecondsSinceTheEpoch) {
  make_scontrol("echo \"$* $SLURM_TIME_FORMAT $TZ\"\n");
  const auto text = ask_scontrol()("42");
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, "show job -o 42 %s UTC\n");
}

TEST_F(ScontrolTest, AHangingScontrolIsKilled) {
  make_scontrol("exec sleep 1000\n");
  const auto text = ask_scontrol(0.2)("42");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::scheduler);
}

TEST_F(ScontrolTest, AFailingScontrolIsAnError) {
  make_scontrol("exit 1\n");
  EXPECT_FALSE(ask_scontrol()("42"));
}

}  // namespace
}  // namespace fedqueue
