#include "fedclient/data/augment.h"

#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "files.h"

namespace fedqueue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kSide = 4;

// Images of two channels; pixel (row, column) of channel c is 1 + 16c + 4·row + column.
Batch numbered(int images, tensor::DType dtype) {
  Batch batch;
  batch.input = {{2, kSide, kSide}};
  batch.dtype = dtype;
  batch.samples = images;
  for (int i = 0; i < images; ++i) {
    for (int p = 0; p < 32; ++p) {
      const float value = static_cast<float>(p + 1);
      const auto byte = static_cast<std::byte>(p + 1);
      if (dtype == tensor::DType::u8) {
        batch.values.push_back(byte);
      } else {
        const auto bytes = std::as_bytes(std::span(&value, 1));
        batch.values.insert(batch.values.end(), bytes.begin(), bytes.end());
      }
    }
  }
  return batch;
}

std::vector<float> numbers(const Batch& batch) {
  std::vector<float> values(static_cast<std::size_t>(batch.samples * batch.input.elements()));
  if (batch.dtype == tensor::DType::f32) {
    std::memcpy(values.data(), batch.values.data(), batch.values.size());
  } else {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(batch.values[i]);
  }
  return values;
}

std::vector<BatchPosition> places(int count, std::int64_t epoch = 0) {
  std::vector<BatchPosition> all;
  for (int i = 0; i < count; ++i) all.push_back({epoch, i});
  return all;
}

// What an image becomes that is moved by (down, right) and then turned over.
std::vector<float> moved(bool flip, int down, int right) {
  std::vector<float> out;
  for (int channel = 0; channel < 2; ++channel) {
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        const int c = (flip ? static_cast<int>(kSide) - 1 - column : column) + right;
        const int r = row + down;
        const bool inside = r >= 0 && r < kSide && c >= 0 && c < kSide;
        out.push_back(inside ? static_cast<float>(1 + 16 * channel + 4 * r + c) : 0.0f);
      }
    }
  }
  return out;
}

TEST(Augment, EveryFlipAndCropComesUpAndNothingElse) {
  for (const auto dtype : {tensor::DType::u8, tensor::DType::f32}) {
    constexpr int kImages = 600;
    Augmentation augmentation;
    augmentation.flip = true;
    augmentation.crop = 1;
    Batch batch = numbered(kImages, dtype);
    augment(augmentation, 7, places(kImages), batch);
    std::set<std::vector<float>> allowed;
    for (const bool flip : {false, true}) {
      for (int down = -1; down <= 1; ++down)
        for (int right = -1; right <= 1; ++right) allowed.insert(moved(flip, down, right));
    }
    std::set<std::vector<float>> seen;
    const std::vector<float> all = numbers(batch);
    for (int i = 0; i < kImages; ++i)
      seen.insert(std::vector<float>(all.begin() + i * 32, all.begin() + (i + 1) * 32));
    EXPECT_EQ(seen, allowed);
  }
}

TEST(Augment, FollowsFromSeedEpochAndPlaceAlone) {
  Augmentation augmentation;
  augmentation.flip = true;
  augmentation.crop = 3;
  Batch whole = numbered(12, tensor::DType::u8);
  augment(augmentation, 7, places(12), whole);
  Batch tail = numbered(5, tensor::DType::u8);
  const std::vector<BatchPosition> all = places(12);
  augment(augmentation, 7, std::span(all).last(5), tail);
  EXPECT_TRUE(std::equal(tail.values.begin(), tail.values.end(),
                         whole.values.end() - static_cast<std::ptrdiff_t>(tail.values.size())));
  for (const auto& [seed, epoch] : {std::pair(8, 0), std::pair(7, 1)}) {
    Batch other = numbered(12, tensor::DType::u8);
    augment(augmentation, static_cast<std::uint64_t>(seed), places(12, epoch), other);
    EXPECT_NE(other.values, whole.values);
  }
}

TEST(Augment, OffIsOff) {
  Batch batch = numbered(3, tensor::DType::u8);
  const Batch before = batch;
  augment({}, 7, {}, batch);
  normalize({}, batch);
  EXPECT_EQ(batch.values, before.values);
  EXPECT_EQ(batch.dtype, tensor::DType::u8);
}

TEST(Augment, ACropMayLeaveNothingOfTheImage) {
  Augmentation augmentation;
  augmentation.crop = 40;
  Batch batch = numbered(200, tensor::DType::u8);
  augment(augmentation, 7, places(200), batch);
  const std::vector<float> all = numbers(batch);
  EXPECT_TRUE(std::all_of(all.begin(), all.end(), [](float x) { return x >= 0 && x <= 32; }));
}

TEST(Normalize, ScalesEachChannelOfBytesFrom255) {
  Batch batch = numbered(2, tensor::DType::u8);
  normalize(*parse_normalization("0.5,0.25/0.5,2"), batch);
  ASSERT_EQ(batch.dtype, tensor::DType::f32);
  const std::vector<float> all = numbers(batch);
  ASSERT_EQ(all.size(), 64u);
  EXPECT_FLOAT_EQ(all[0], (1.0f / 255 - 0.5f) / 0.5f);
  EXPECT_FLOAT_EQ(all[16], (17.0f / 255 - 0.25f) / 2);
  EXPECT_FLOAT_EQ(all[32 + 31], (32.0f / 255 - 0.25f) / 2);
}

TEST(Normalize, TakesFloatsAsTheyAre) {
  Batch batch = numbered(1, tensor::DType::f32);
  normalize(*parse_normalization("1/4"), batch);
  const std::vector<float> all = numbers(batch);
  EXPECT_FLOAT_EQ(all[0], 0);
  EXPECT_FLOAT_EQ(all[31], 7.75f);
}

TEST(Normalization, IsMeansAndDeviations) {
  const Result<Normalization> three = parse_normalization("0.49, 0.48,0.45/0.25,0.24,0.26");
  ASSERT_TRUE(three);
  EXPECT_EQ(three->channels, 3);
  EXPECT_FLOAT_EQ(three->mean[2], 0.45f);
  EXPECT_FLOAT_EQ(three->deviation[1], 0.24f);
  for (const char* bad : {"", "/", "1", "1/", "1/0", "1/-1", "1,2/3", "x/1", "1/nan", "1/2/3",
                          "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1/1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"}) {
    EXPECT_FALSE(parse_normalization(bad)) << bad;
  }
}

TEST(CheckAugmentation, NamesWhatDoesNotFit) {
  const Dataset images = counted_dataset(3, 2);
  Dataset vectors = images;
  vectors.input = {{6}};
  Augmentation augmentation;
  augmentation.flip = true;
  EXPECT_TRUE(check_augmentation(augmentation, images));
  EXPECT_THAT(check_augmentation(augmentation, vectors).error().message, HasSubstr("for images"));
  augmentation = {};
  augmentation.normalization = *parse_normalization("0.5/0.5");
  EXPECT_TRUE(check_augmentation(augmentation, vectors));
  augmentation.normalization = *parse_normalization("1,2,3/1,2,3");
  EXPECT_THAT(check_augmentation(augmentation, images).error().message,
              HasSubstr("there are 3 means"));
  Dataset tokens = images;
  tokens.input = {{1}, true};
  EXPECT_THAT(check_augmentation(augmentation, tokens).error().message, HasSubstr("tokens"));
}

}  // namespace
}  // namespace fedqueue
