#include "fedclient/trainer/model_file.h"

#include <gmock/gmock.h>

#include <limits>

#include "core/base/file.h"
#include "fixture.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;
using ModelFileTest = TrainingTest;

TEST_F(ModelFileTest, TheSeedDecidesTheInitialModel) {
  const auto first = *read_file(make_model("mlp", 1));
  EXPECT_EQ(*read_file(make_model("mlp", 1)), first);
  EXPECT_NE(*read_file(make_model("mlp", 2)), first);
}

TEST_F(ModelFileTest, TheMetadataSaysHowToBuildTheModelAgain) {
  const auto manifest = read_manifest(make_model("cnn"));
  ASSERT_TRUE(manifest);
  const auto spec = spec_from_metadata(manifest->metadata);
  ASSERT_TRUE(spec);
  EXPECT_EQ(*spec, (NetworkSpec{"cnn", 4, {{1, 12, 12}}}));
  EXPECT_THAT(manifest->buffers(), ::testing::Contains("bn1.running_mean"));
}

TEST_F(ModelFileTest, AnotherStructureIsAMismatchThatNamesTheTensors) {
  const auto expected = *read_manifest(make_model("mlp"));
  auto changed = expected;
  std::vector<tensor::TensorInfo> tensors;
  for (auto info : expected.tensors) {
    if (info.name == "fc1.bias") continue;
    if (info.name == "fc2.weight") info.shape = {64, 127};
    tensors.push_back(info);
  }
  changed = *tensor::lay_out(tensors, expected.metadata);
  const std::vector<std::byte> zeros(changed.data_bytes);
  ASSERT_TRUE(write_state(directory_ / "changed.safetensors", changed, zeros));
  const auto state = read_state(directory_ / "changed.safetensors", expected);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, Code::model_mismatch);
  EXPECT_THAT(state.error().message, HasSubstr("fc1.bias"));
  EXPECT_THAT(state.error().message, HasSubstr("fc2.weight"));
}

TEST_F(ModelFileTest, MetadataThatIsMissingOrBrokenIsAMismatch) {
  for (const std::map<std::string, std::string>& metadata :
       {std::map<std::string, std::string>{},
        {{"fedqueue.model", "mlp"}, {"fedqueue.classes", "ten"}, {"fedqueue.input", "28x28"}},
        {{"fedqueue.model", "cnn"}, {"fedqueue.classes", "10"}, {"fedqueue.input", "28"}},
        {{"fedqueue.model", "vgg"}, {"fedqueue.classes", "10"}, {"fedqueue.input", "28x28"}}}) {
    const auto spec = spec_from_metadata(metadata);
    ASSERT_FALSE(spec);
    EXPECT_EQ(spec.error().code, Code::model_mismatch);
  }
}

TEST_F(ModelFileTest, ATruncatedModelIsRefused) {
  const auto model = make_model();
  const auto manifest = *read_manifest(model);
  std::filesystem::resize_file(model, std::filesystem::file_size(model) - 1);
  EXPECT_EQ(read_state(model, manifest).error().code, Code::model_format);
}

TEST_F(ModelFileTest, ADifferenceThatIsNotFiniteNamesItsTensor) {
  const auto layout = *read_manifest(make_model());
  const std::vector<std::byte> base(layout.data_bytes);
  std::vector<std::byte> state(layout.data_bytes);
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(state.data() + layout.find("fc3.weight")->begin, &bad, sizeof bad);
  const Status status = subtract_base(layout, base, state);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::not_finite);
  EXPECT_THAT(status.error().message, HasSubstr("fc3.weight"));
}

}  // namespace
}  // namespace fedqueue
