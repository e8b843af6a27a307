#include "simulation/scale/scale.h"

#include <gtest/gtest.h>

namespace fedqueue::simulation {
namespace {

TEST(Scale, EveryJobOfEveryFacilityIsServed) {
  for (const char* policy :
       {"fedavg", "fedqueue", "fedbuff", "fedasync", "fedcompass", "resident"}) {
    ScaleOptions options;
    options.facilities = 40;
    options.rounds = 3;
    ASSERT_TRUE(options.policy.set("policy", policy));
    const auto result = measure_scale(options);
    ASSERT_TRUE(result) << policy << ": " << result.error().message;
    EXPECT_EQ(result->facilities, 40);
    EXPECT_GE(result->events, 40 * 3 * 5) << "five events a job, and reductions";
    EXPECT_GE(result->versions, 1) << policy;
    EXPECT_GT(result->facts, result->events / 2);
    EXPECT_GT(result->journal_bytes_per_fact, 0);
    EXPECT_GT(result->replay_microseconds_per_fact, 0);
  }
}

}  // namespace
}  // namespace fedqueue::simulation
