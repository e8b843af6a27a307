#include "fedserver/telemetry/status_page.h"

#include <gtest/gtest.h>

namespace fedqueue {
namespace {

bool has(const std::string& page, const char* text) { return page.find(text) != std::string::npos; }

TEST(StatusPage, ShowsTheRun) {
  const std::string page = status_page(R"({
    "run":"mnist","state":"open","policy":"fedqueue","version":6,"round":7,"round_open_s":90,
    "facilities":{"site-a":{"state":"training","last_wait_s":7200,"predicted_wait_s":300,
      "updates_counted":6,"last_error":"out of memory"}},
    "rounds":[{"version":6,"cause":"all","open_s":60,"step_norm":0.5,
      "facilities":{"site-a":{"staleness":2,"weight":0.25}}}],
    "evaluations":{"1":{"accuracy":0.5},"6":{"accuracy":0.8125},"10":{"accuracy":0.9}}})");
  EXPECT_TRUE(has(page, "Run mnist"));
  EXPECT_TRUE(has(page, "<td>site-a</td><td>training</td><td>2.0 h</td><td>5 min</td><td>2</td>"));
  EXPECT_TRUE(has(page, "0.2500"));
  EXPECT_TRUE(has(page, "out of memory"));
  EXPECT_TRUE(has(page, "<polyline points="));
  EXPECT_TRUE(has(page, "version 10: 90.00 %"));
}

TEST(StatusPage, NeedsNothingFromElsewhere) {
  const std::string page = status_page("{}");
  EXPECT_TRUE(has(page, "http-equiv=\"refresh\""));
  EXPECT_FALSE(has(page, "<script"));
  EXPECT_FALSE(has(page, "src="));
  EXPECT_FALSE(has(page, "http://"));
  EXPECT_FALSE(has(page, "https://"));
}

TEST(StatusPage, ANameIsNeverMarkup) {
  const std::string page = status_page(
      R"({"run":"<b>x</b>","last_error":"<script>alert(1)</script>","facilities":{"<i>":{}}})");
  EXPECT_FALSE(has(page, "<b>x"));
  EXPECT_FALSE(has(page, "<script"));
  EXPECT_FALSE(has(page, "<i>"));
  EXPECT_TRUE(has(page, "&lt;b&gt;x"));
}

TEST(StatusPage, LivesWithAnything) {
  for (const char* text : {"", "null", "[]", "7",
                           "{\"rounds\":7,\"facilities\":[],"
                           "\"evaluations\":{\"a\":{\"accuracy\":\"x\"}}}"}) {
    EXPECT_TRUE(has(status_page(text), "</html>")) << text;
  }
}

}  // namespace
}  // namespace fedqueue
