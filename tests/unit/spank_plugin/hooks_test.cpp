// The parts of the hooks that are arithmetic or text; what they do inside Slurm is in
// plugin_test.cpp.
#include "spank_plugin/hooks.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "spank_plugin/guard.h"

namespace fedqueue::plugin {
namespace {

QueueRecord record(std::int64_t submit, std::int64_t eligible, std::int64_t start) {
  QueueRecord made;
  made.submit = submit;
  made.eligible = eligible;
  made.start = start;
  return made;
}

TEST(PluginHooks, CountsTheWaitFromWhenTheJobCouldHaveRun) {
  EXPECT_EQ(queue_wait_s(record(100, 100, 160)), 60);
  EXPECT_EQ(queue_wait_s(record(100, 150, 160)), 10) << "held until 150";
  EXPECT_EQ(queue_wait_s(record(100, 0, 160)), 60) << "eligible unknown";
  EXPECT_EQ(queue_wait_s(record(100, 170, 160)), 0) << "never negative";
}

TEST(PluginHooks, CarriesARecordAsTextAndBack) {
  QueueRecord sent = record(1700000000, 1700000005, 1700000009);
  sent.restarts = 3;
  sent.limit_s = 3600;
  const auto received = record_from_text(to_text(42, sent), 42);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->submit, sent.submit);
  EXPECT_EQ(received->eligible, sent.eligible);
  EXPECT_EQ(received->start, sent.start);
  EXPECT_EQ(received->restarts, 3);
  EXPECT_EQ(received->limit_s, 3600);

  sent.limit_s.reset();
  const auto unlimited = record_from_text(to_text(42, sent), 42);
  ASSERT_TRUE(unlimited);
  EXPECT_EQ(unlimited->limit_s, std::nullopt);
}

TEST(PluginHooks, RefusesRecordsOfOtherJobsAndBrokenOnes) {
  const std::string good = to_text(42, record(1, 2, 3));
  EXPECT_TRUE(record_from_text(good, 42));
  EXPECT_FALSE(record_from_text(good, 43));
  for (const char* text : {"", ":::::", "42:0:1:2:3", "42:0:1:2:3:", "42:0:1:2:3:x",
                           "42:0:1:2:-3:none", "42:0:1: 2:3:none", "42:0:1:2:3:none:4",
                           "42:0:1:2:99999999999999999999:none", "42x:0:1:2:3:none", "none"}) {
    EXPECT_FALSE(record_from_text(text, 42)) << text;
  }
}

TEST(PluginGuard, LetsNothingEscapeAndSaysWhy) {
  std::string said;
  const auto log = [&](const char* hook, const char* why) { said = std::string(hook) + ":" + why; };
  EXPECT_EQ(guarded("hook", log, [] { return -1; }), -1);
  EXPECT_EQ(guarded("hook", log, []() -> int { throw std::runtime_error("why"); }), 0);
  EXPECT_EQ(said, "hook:why");
  EXPECT_EQ(guarded("hook", log, []() -> int { throw 5; }), 0);
  EXPECT_EQ(said, "hook:unknown exception");
  const auto broken = [](const char*, const char*) { throw 6; };
  EXPECT_EQ(guarded("hook", broken, []() -> int { throw 5; }), 0);
}

}  // namespace
}  // namespace fedqueue::plugin
