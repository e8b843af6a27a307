#include "fedserver/http/target.h"

#include <gtest/gtest.h>

namespace fedqueue::http {
namespace {

TEST(Target, FindsEveryRoute) {
  const std::pair<const char*, Route> routes[] = {
      {"/v1/runs/mnist", Route::status},
      {"/v1/runs/mnist/", Route::status},
      {"/v1/runs/mnist/plans", Route::plans},
      {"/v1/runs/mnist/jobs", Route::jobs},
      {"/v1/runs/mnist/jobs/10001.0/heartbeat", Route::heartbeat},
      {"/v1/runs/mnist/jobs/10001.0", Route::job},
      {"/v1/runs/mnist/models/latest", Route::latest},
      {"/v1/runs/mnist/models/7", Route::model},
      {"/v1/runs/mnist/updates/site-a.1.0.1", Route::update},
      {"/v1/runs/mnist/evaluations", Route::evaluations},
      {"/v1/runs/mnist/events?after=3", Route::events},
      {"/v1/runs/mnist/stop", Route::stop},
      {"/healthz", Route::health},
      {"/metrics", Route::metrics},
      {"/", Route::page}};
  for (const auto& [text, route] : routes) {
    const auto target = parse_target(text);
    ASSERT_TRUE(target) << text;
    EXPECT_EQ(target->route, route) << text;
  }
}

TEST(Target, TakesNamesApart) {
  const auto target = parse_target("/v1/runs/mnist/updates/site-a.1.0.1?x=1&after=22");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->run, "mnist");
  EXPECT_EQ(target->id, "site-a.1.0.1");
  EXPECT_EQ(query_value(target->query, "after"), "22");
  EXPECT_EQ(query_value(target->query, "aft"), std::nullopt);
}

TEST(Target, SaysWhatIsNotThere) {
  for (const char* text : {"", "x", "/v1", "/v1/runs/", "/v1/runs//plans", "/v1/runs/mnist/nothing",
                           "/v1/runs/mnist/jobs/", "/v1/runs/mnist/jobs/1.0/other",
                           "/v1/runs/mnist/updates/a/b/c", "/v2/runs/mnist", "/metrics/x"}) {
    const auto target = parse_target(text);
    ASSERT_FALSE(target) << text;
    EXPECT_EQ(target.error().code, Code::not_found);
  }
}

}  // namespace
}  // namespace fedqueue::http
