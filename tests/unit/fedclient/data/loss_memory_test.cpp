#include "fedclient/data/loss_memory.h"

#include <gmock/gmock.h>

#include <limits>
#include <numeric>

namespace fedqueue {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

std::vector<std::int64_t> indices(std::initializer_list<std::int64_t> values) { return values; }
std::vector<float> losses(std::initializer_list<float> values) { return values; }

TEST(LossMemory, AveragesWhatASampleCostEachTime) {
  LossMemory memory(3);
  memory.add(indices({2, 0}), losses({4, 1}), 0.75);
  EXPECT_THAT(memory.means(), ElementsAre(1, -1, 4)) << "the first loss counts whole";
  memory.add(indices({2, 2}), losses({2, 0}), 0.75);
  EXPECT_THAT(memory.means(), ElementsAre(1, -1, 2.625)) << "0.75·(0.75·4 + 0.25·2)";
}

TEST(LossMemory, DrawsInProportionToTheLossAboveAFloor) {
  LossMemory memory(4);
  memory.add(indices({0, 1, 2, 3}), losses({0, 1, 1, 6}), 0.5);
  const std::vector<double> drawn = memory.probabilities(0.2);
  EXPECT_THAT(drawn, ElementsAre(DoubleNear(0.05, 1e-12), DoubleNear(0.15, 1e-12),
                                 DoubleNear(0.15, 1e-12), DoubleNear(0.65, 1e-12)));
  EXPECT_THAT(memory.probabilities(1), Each(DoubleNear(0.25, 1e-12))) << "the floor alone";
}

TEST(LossMemory, WhatWasNotSeenCountsAsTheMean) {
  LossMemory memory(4);
  EXPECT_THAT(memory.probabilities(0.5), Each(DoubleNear(0.25, 1e-12)));
  memory.add(indices({0, 1}), losses({1, 3}), 0.5);
  const std::vector<double> drawn = memory.probabilities(0.5);
  EXPECT_THAT(drawn, ElementsAre(DoubleNear(0.1875, 1e-12), DoubleNear(0.3125, 1e-12),
                                 DoubleNear(0.25, 1e-12), DoubleNear(0.25, 1e-12)));
  EXPECT_NEAR(std::accumulate(drawn.begin(), drawn.end(), 0.0), 1, 1e-12);
}

TEST(LossMemory, LeavesOutWhatIsNoLossAndStandsWhereAllIsLearnt) {
  LossMemory memory(2);
  memory.add(indices({0, 1}), losses({std::numeric_limits<float>::quiet_NaN(), 0}), 0.5);
  EXPECT_THAT(memory.means(), ElementsAre(-1, 0));
  EXPECT_THAT(memory.probabilities(0.5), Each(DoubleNear(0.5, 1e-12)));
}

}  // namespace
}  // namespace fedqueue
