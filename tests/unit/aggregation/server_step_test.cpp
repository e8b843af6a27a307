// The server optimiser's parameters: names that read back, and values that are refused.
#include "aggregation/optimizer/server_step.h"

#include <gtest/gtest.h>

#include <limits>

namespace fedqueue {
namespace {

TEST(ServerStepTest, EveryNameReadsBack) {
  for (const std::string_view name : server_optimizer_names()) {
    const Result<ServerOptimizer> parsed = parse_server_optimizer(name);
    ASSERT_TRUE(parsed) << name;
    EXPECT_EQ(server_optimizer_name(*parsed), name);
  }
}

TEST(ServerStepTest, AMistypedNameNamesTheNearest) {
  const Result<ServerOptimizer> parsed = parse_server_optimizer("nestorov");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, Code::usage);
  EXPECT_EQ(parsed.error().cure, "did you mean nesterov?");
}

TEST(ServerStepTest, OnlyThePlainSumNeedsNothingFromTheRoundBefore) {
  ServerStep step;
  EXPECT_FALSE(step.has_state());
  step.optimizer = ServerOptimizer::momentum;
  EXPECT_TRUE(step.has_state());
}

TEST(ServerStepTest, ParametersOutOfRangeAreRefused) {
  EXPECT_TRUE(ServerStep{}.validate());
  const auto refused = [](auto change) {
    ServerStep step;
    change(step);
    return !step.validate();
  };
  EXPECT_TRUE(refused([](ServerStep& step) { step.learning_rate = 0; }));
  EXPECT_TRUE(refused(
      [](ServerStep& step) { step.learning_rate = std::numeric_limits<double>::quiet_NaN(); }));
  EXPECT_TRUE(refused([](ServerStep& step) { step.momentum = 1; }));
  EXPECT_TRUE(refused([](ServerStep& step) { step.beta2 = -0.1; }));
  EXPECT_TRUE(refused([](ServerStep& step) { step.tau = 0; }));
  EXPECT_TRUE(refused([](ServerStep& step) { step.delay = 0; }));
}

}  // namespace
}  // namespace fedqueue
