#include "simulation/training/training.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace fedqueue::simulation {
namespace {

// Four classes of 8×8 images: a bright quarter each, with a pattern of its own per sample.
Dataset quarters(std::int64_t samples) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto label = static_cast<std::int32_t>(i % 4);
    labels.push_back(label);
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 8; ++column) {
        const bool bright = (row / 4) * 2 + column / 4 == label;
        const auto noise = static_cast<std::uint8_t>((i * 37 + row * 11 + column * 5) % 60);
        pixels.push_back(static_cast<std::uint8_t>((bright ? 180 : 20) + noise));
      }
    }
  }
  return Dataset::of_bytes({{1, 8, 8}}, std::move(pixels), std::move(labels));
}

TrainingData data() { return {quarters(400), quarters(100)}; }

TrainingOptions small() {
  TrainingOptions options;
  options.facilities = 2;
  options.division = Division::iid;
  options.batch = 16;
  options.evaluation_samples = 40;
  return options;
}

std::vector<std::byte> plus(std::vector<std::byte> model, const std::vector<std::byte>& update) {
  for (std::size_t at = 0; at + sizeof(float) <= model.size(); at += sizeof(float)) {
    float value = 0;
    float delta = 0;
    std::memcpy(&value, model.data() + at, sizeof value);
    std::memcpy(&delta, update.data() + at, sizeof delta);
    value += delta;
    std::memcpy(model.data() + at, &value, sizeof value);
  }
  return model;
}

TEST(FederatedTask, TrainingImprovesTheModel) {
  auto task = FederatedTask::create(small(), data());
  ASSERT_TRUE(task) << task.error().message;
  std::vector<std::byte> model = (*task)->initial();
  const auto before = (*task)->evaluate(model);
  ASSERT_TRUE(before);
  for (int round = 0; round < 3; ++round) {
    const auto result = (*task)->train(round % 2, model, {20, 0.1, {}, {}});
    ASSERT_TRUE(result) << result.error().message;
    model = plus(model, result->update);
  }
  const auto after = (*task)->evaluate(model);
  ASSERT_TRUE(after);
  EXPECT_LT(after->loss, before->loss);
  EXPECT_GT(after->accuracy, 0.95);
  EXPECT_EQ((*task)->steps_done(), 60);
}

TEST(FederatedTask, TheSameSeedsGiveTheSameBytes) {
  auto first = FederatedTask::create(small(), data());
  auto again = FederatedTask::create(small(), data());
  ASSERT_TRUE(first && again);
  EXPECT_EQ((*first)->initial(), (*again)->initial());
  const auto one = (*first)->train(1, (*first)->initial(), {10, 0.05, {}, {}});
  const auto two = (*again)->train(1, (*again)->initial(), {10, 0.05, {}, {}});
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->update, two->update);
  EXPECT_EQ(one->loss_mean, two->loss_mean);

  TrainingOptions other = small();
  other.model_seed = 2;
  auto different = FederatedTask::create(other, data());
  ASSERT_TRUE(different);
  EXPECT_NE((*different)->initial(), (*first)->initial());
}

TEST(FederatedTask, ASegmentCutInTwoSeesTheSameSamples) {
  auto whole = FederatedTask::create(small(), data());
  auto halves = FederatedTask::create(small(), data());
  ASSERT_TRUE(whole && halves);
  const auto one = (*whole)->train(0, (*whole)->initial(), {8, 0.05, {}, {}});
  const auto first = (*halves)->train(0, (*halves)->initial(), {4, 0.05, {}, {}});
  ASSERT_TRUE(one && first);
  const auto middle = plus((*halves)->initial(), first->update);
  const auto second = (*halves)->train(0, middle, {4, 0.05, {}, {}});
  ASSERT_TRUE(second);
  const auto model = plus(middle, second->update);
  const auto expected = plus((*whole)->initial(), one->update);
  const auto left = (*whole)->evaluate(model);
  const auto right = (*whole)->evaluate(expected);
  ASSERT_TRUE(left && right);
  EXPECT_NEAR(left->loss, right->loss, 1e-5);
}

TEST(FederatedTask, ACorrectionIsAddedToEachGradient) {
  auto plain = FederatedTask::create(small(), data());
  auto corrected = FederatedTask::create(small(), data());
  ASSERT_TRUE(plain && corrected);
  std::vector<float> correction((*plain)->manifest().data_bytes / sizeof(float), 0);
  const auto begin = (*plain)->initial();
  const auto one = (*plain)->train(0, begin, {1, 0.05, {}, {}});
  const auto none = (*corrected)->train(0, begin, {1, 0.05, std::nullopt, correction});
  ASSERT_TRUE(one && none);
  EXPECT_EQ(one->update, none->update);
  std::fill(correction.begin(), correction.end(), 0.5F);
  const auto next = (*plain)->train(0, begin, {1, 0.05, {}, {}});
  const auto moved = (*corrected)->train(0, begin, {1, 0.05, std::nullopt, correction});
  ASSERT_TRUE(next && moved);
  for (std::size_t at = 0; at < moved->update.size(); at += sizeof(float)) {
    float with = 0;
    float without = 0;
    std::memcpy(&with, moved->update.data() + at, sizeof with);
    std::memcpy(&without, next->update.data() + at, sizeof without);
    ASSERT_NEAR(with - without, -0.05 * 0.5, 1e-6);
  }
  const auto after = (*corrected)->train(0, begin, {1, 0.05, {}, {}});
  const auto expected = (*plain)->train(0, begin, {1, 0.05, {}, {}});
  ASSERT_TRUE(after && expected);
  EXPECT_EQ(after->update, expected->update) << "the next segment has none";
}

TEST(FederatedTask, ALossThatLeavesTheNumbersIsAnError) {
  auto task = FederatedTask::create(small(), data());
  ASSERT_TRUE(task);
  const auto result = (*task)->train(0, (*task)->initial(), {200, 1e30, {}, {}});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::not_finite);
}

TEST(FederatedTask, EveryDivisionGivesEachSampleToOneFacility) {
  for (const Division division : {Division::iid, Division::dirichlet, Division::shards}) {
    TrainingOptions options = small();
    options.division = division;
    auto task = FederatedTask::create(options, data());
    ASSERT_TRUE(task) << task.error().message;
    std::set<std::int64_t> seen;
    for (const auto& part : (*task)->partition()) seen.insert(part.begin(), part.end());
    EXPECT_EQ(seen.size(), 400u);
    EXPECT_EQ((*task)->samples(0) + (*task)->samples(1), 400);
  }
}

TEST(FederatedTask, AnUnknownModelIsRefused) {
  TrainingOptions options = small();
  options.model = "transformer";
  EXPECT_EQ(FederatedTask::create(options, data()).error().code, Code::usage);
}

}  // namespace
}  // namespace fedqueue::simulation
