// What a reader of logs, person or program, relies on.
#include "core/base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "core/base/text.h"
#include "tests/unit/core/config/scratch.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  LogTest() {
    text_file = std::move(*open_file(scratch / "text", O_WRONLY | O_CREAT | O_APPEND));
    options.text_descriptor = text_file.get();
    options.json_file = scratch / "log.json";
  }
  Log made(std::initializer_list<LogField> context = {}) {
    return *Log::create(options, "agent", context);
  }
  std::vector<std::string> lines(const std::string& name) {
    std::vector<std::string> all = split(Scratch::content(scratch / name), '\n');
    all.pop_back();
    return all;
  }

  Scratch scratch;
  FileDescriptor text_file;
  LogOptions options;
};

TEST_F(LogTest, ALineHasTimeLevelComponentContextAndFields) {
  const Log log = made({{"run", "mnist"}, {"facility", FacilityId("site-a")}});
  log.info("submitted", {{"job", 10001}, {"wait_s", 3.25}, {"held", false}});
  ASSERT_EQ(lines("text").size(), 1u);
  EXPECT_THAT(lines("text")[0],
              MatchesRegex("....-..-..T..:..:......Z INFO  agent run=mnist facility=site-a "
                           "job=10001 wait_s=3.25 held=false msg=\"submitted\""));
  const auto json = nlohmann::json::parse(lines("log.json").at(0));
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["component"], "agent");
  EXPECT_EQ(json["run"], "mnist");
  EXPECT_EQ(json["job"], 10001);
  EXPECT_EQ(json["wait_s"], 3.25);
  EXPECT_EQ(json["held"], false);
  EXPECT_EQ(json["msg"], "submitted");
}

TEST_F(LogTest, NoValueCanForgeALineOrBreakTheJson) {
  const std::string evil = "x\n2026-01-01T00:00:00.000Z ERROR \"a\\b\x01\x7f";
  made().warning(evil, {{"peer", evil}, {"broken", std::string_view("\xff\xfe")}});
  ASSERT_EQ(lines("text").size(), 1u);
  EXPECT_THAT(lines("text")[0], HasSubstr(R"(peer="x\n2026)"));
  ASSERT_EQ(lines("log.json").size(), 1u);
  const auto json = nlohmann::json::parse(lines("log.json")[0]);
  EXPECT_EQ(json["peer"], evil);
  EXPECT_EQ(json["broken"], "??");
}

TEST_F(LogTest, LinesBelowTheThresholdAreLeftOut) {
  options.threshold = LogLevel::warning;
  const Log log = made();
  log.debug("a");
  log.info("b");
  EXPECT_THAT(lines("text"), IsEmpty());
  log.error("c");
  EXPECT_EQ(lines("text").size(), 1u);
  EXPECT_FALSE(log.enabled(LogLevel::info));
}

TEST_F(LogTest, AFailureCarriesItsCodeAndCure) {
  made().error(Error{Code::network_refused, "nobody listens", "Start the server."});
  EXPECT_THAT(lines("text").at(0), HasSubstr("code=network-refused cure=\"Start the server.\" "
                                             "msg=\"nobody listens\""));
}

TEST_F(LogTest, NumbersThatAreNoJsonAreQuoted) {
  made().info("loss", {{"loss", std::nan("")}});
  EXPECT_EQ(nlohmann::json::parse(lines("log.json").at(0))["loss"], "nan");
}

TEST_F(LogTest, AChildAddsContextAndSharesTheSinks) {
  const Log log = made({{"run", "mnist"}});
  log.with({{"job", 7}}).for_component("link").info("sent");
  log.info("idle");
  EXPECT_THAT(lines("text").at(0), HasSubstr("link run=mnist job=7 msg="));
  EXPECT_THAT(lines("text").at(1), HasSubstr("agent run=mnist msg="));
}

TEST_F(LogTest, LinesOfManyThreadsStayWhole) {
  const Log log = made();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&log, thread] {
      for (int i = 0; i < 200; ++i) log.info(std::string(300, 'x'), {{"id", thread * 200 + i}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<int> seen;
  for (const std::string& line : lines("log.json")) {
    seen.insert(nlohmann::json::parse(line)["id"].get<int>());
  }
  EXPECT_EQ(seen.size(), 800u);
  EXPECT_EQ(lines("text").size(), 800u);
}

TEST_F(LogTest, ALogIsAppendedToAndKeepsItsMode) {
  scratch.file("log.json", "{}\n");
  std::filesystem::permissions(scratch / "log.json", std::filesystem::perms(0600));
  made().info("a");
  EXPECT_EQ(lines("log.json").size(), 2u);
  EXPECT_EQ(std::filesystem::status(scratch / "log.json").permissions(),
            std::filesystem::perms(0600));
}

TEST_F(LogTest, LinesThatCannotBeWrittenAreCounted) {
  FileDescriptor read_only = std::move(*open_file("/dev/null", O_RDONLY));
  options.text_descriptor = read_only.get();
  const Log log = made();
  log.info("a");
  EXPECT_EQ(log.lines_lost(), 1u);
  EXPECT_EQ(lines("log.json").size(), 1u);
}

TEST_F(LogTest, AMissingFolderIsReportedWhenTheLogIsOpened) {
  options.json_file = scratch / "none/log.json";
  const auto log = Log::create(options, "agent");
  ASSERT_FALSE(log.has_value());
  EXPECT_EQ(log.error().code, Code::storage);
}

TEST(SilentLogTest, ADefaultLogWritesNothing) {
  const Log log;
  log.error("nobody hears this");
  EXPECT_FALSE(log.enabled(LogLevel::error));
  EXPECT_EQ(log.with({{"a", 1}}).lines_lost(), 0u);
}

}  // namespace
}  // namespace fedqueue
