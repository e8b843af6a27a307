#include "fedclient/data/dataset.h"

#include <gmock/gmock.h>

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
  EXPECT_EQ(loaded->images, dataset.images);
  EXPECT_EQ(loaded->labels, dataset.labels);
  EXPECT_EQ(loaded->rows, 2);
  EXPECT_EQ(loaded->columns, 3);
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
  EXPECT_EQ(part.image(0)[0], 8);
  EXPECT_EQ(part.image(1)[0], 2);
  EXPECT_EQ(part.classes, 4);
}

TEST_F(DatasetTest, LoadsTheInstalledFashionMnist) {
  if (!std::filesystem::exists(kDatasetDirectoryDefault)) GTEST_SKIP() << "dataset not installed";
  const Result<Dataset> held_out = load_dataset(kDatasetDirectoryDefault, Split::held_out);
  ASSERT_TRUE(held_out) << held_out.error().message;
  EXPECT_EQ(held_out->samples(), 10000);
  EXPECT_EQ(held_out->rows, 28);
  EXPECT_EQ(held_out->classes, 10);
  EXPECT_THAT(held_out->histogram(), ::testing::Each(1000));
}

}  // namespace
}  // namespace fedqueue
