#include "fedclient/data/dataset.h"

#include <gmock/gmock.h>

#include <cstring>

#include "fedclient/data/idx.h"
#include "files.h"

namespace fedqueue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using DatasetTest = FilesTest;

TEST_F(DatasetTest, KeepsImagesAndLabelsThroughAWriteAndALoad) {
  const Dataset dataset = counted_dataset(7, 3);
  ASSERT_TRUE(write_dataset(directory_ / "part", Split::train, dataset));
  const Result<Dataset> loaded = load_dataset(directory_ / "part", Split::train);
  ASSERT_TRUE(loaded);
  EXPECT_THAT(loaded->values, ::testing::ElementsAreArray(dataset.values));
  EXPECT_EQ(loaded->labels, dataset.labels);
  EXPECT_EQ(loaded->input.text(), "1x2x3");
  EXPECT_THAT(loaded->histogram(), ElementsAre(3, 2, 2));
}

TEST_F(DatasetTest, AMissingDatasetNamesTheCure) {
  const Result<Dataset> loaded = load_dataset(directory_, Split::held_out);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, Code::data);
  EXPECT_THAT(loaded.error().message, HasSubstr("t10k-images-idx3-ubyte"));
  EXPECT_THAT(loaded.error().cure, HasSubstr("dataset-fashion-mnist"));
  EXPECT_THAT(loaded.error().cure, HasSubstr("--dataset"));
}

TEST_F(DatasetTest, AnEmptyDatasetIsRefused) {
  ASSERT_TRUE(write_idx(directory_ / "train-images-idx3-ubyte", {0, 2, 3}, {}));
  ASSERT_TRUE(write_idx(directory_ / "train-labels-idx1-ubyte", {0}, {}));
  const Result<Dataset> loaded = load_dataset(directory_, Split::train);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("no samples"));
}

TEST_F(DatasetTest, ImagesAndLabelsMustAgree) {
  const std::vector<std::uint8_t> bytes(12, 1);
  ASSERT_TRUE(write_idx(directory_ / "train-images-idx3-ubyte", {2, 2, 3}, bytes));
  ASSERT_TRUE(write_idx(directory_ / "train-labels-idx1-ubyte", {12}, bytes));
  const Result<Dataset> loaded = load_dataset(directory_, Split::train);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message, HasSubstr("2 images but 12 labels"));
}

TEST_F(DatasetTest, SubsetTakesTheSamplesAskedForInOrder) {
  const Dataset dataset = counted_dataset(9, 4);
  const std::vector<std::int64_t> indices = {8, 2};
  const Dataset part = dataset.subset(indices);
  EXPECT_EQ(part.samples(), 2);
  EXPECT_EQ(part.sample(0)[0], std::byte{8});
  EXPECT_EQ(part.sample(1)[0], std::byte{2});
  EXPECT_EQ(part.classes, 4);
}

TEST_F(DatasetTest, ImagesOfSeveralChannelsHaveAFourthDimension) {
  std::vector<std::uint8_t> pixels(2 * 3 * 4 * 4);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i);
  const Dataset colours = Dataset::of_bytes({{3, 4, 4}}, pixels, {1, 0});
  ASSERT_TRUE(write_dataset(directory_ / "part", Split::train, colours));
  const Result<Dataset> loaded = load_dataset(directory_ / "part", Split::train);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->input, colours.input);
  EXPECT_THAT(loaded->values, ::testing::ElementsAreArray(colours.values));
}

TEST(Gather, OfTokensTheNextOneIsToBePredicted) {
  const std::vector<std::uint16_t> tokens = {5, 6, 7, 8, 9, 10, 11};
  Dataset stream;
  stream.input = {{3}, true};
  stream.dtype = tensor::DType::u16;
  stream.classes = 12;
  stream.values = std::as_bytes(std::span(tokens));
  ASSERT_EQ(stream.samples(), 2);
  const std::vector<std::int64_t> second = {1};
  const Batch batch = gather(stream, second);
  EXPECT_EQ(batch.dtype, tensor::DType::i64);
  std::vector<std::int64_t> values(3);
  std::memcpy(values.data(), batch.values.data(), batch.values.size());
  EXPECT_THAT(values, ElementsAre(8, 9, 10));
  EXPECT_THAT(batch.targets, ElementsAre(9, 10, 11));
}

TEST(InputShapeText, IsReadBack) {
  for (const char* text : {"1x28x28", "16", "tokens:128", "3x224x224"}) {
    const Result<InputShape> shape = parse_input_shape(text);
    ASSERT_TRUE(shape) << text;
    EXPECT_EQ(shape->text(), text);
  }
  for (const char* text : {"", "x", "0x3", "3x-1", "tokens:", "tokens:3x4", "70000x70000", "1x2y"})
    EXPECT_FALSE(parse_input_shape(text)) << text;
}

TEST_F(DatasetTest, LoadsTheInstalledFashionMnist) {
  if (!std::filesystem::exists(kDatasetDirectoryDefault)) GTEST_SKIP() << "dataset not installed";
  const Result<Dataset> held_out = load_dataset(kDatasetDirectoryDefault, Split::held_out);
  ASSERT_TRUE(held_out) << held_out.error().message;
  EXPECT_EQ(held_out->samples(), 10000);
  EXPECT_EQ(held_out->input.text(), "1x28x28");
  EXPECT_EQ(held_out->classes, 10);
  EXPECT_THAT(held_out->histogram(), ::testing::Each(1000));
}

}  // namespace
}  // namespace fedqueue
