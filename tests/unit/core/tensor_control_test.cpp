// What users rely on of control variates in model files: which tensors have one, and that adding
// and stripping them leaves the model alone.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "core/tensor/control.h"
#include "core/tensor/control_values.h"

namespace fedqueue::tensor {
namespace {

using testing::UnorderedElementsAre;

class ControlVariates : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "fedqueue-control-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    model_ = folder_ / "model";
    Manifest layout = *lay_out({{"weight", DType::f32, {2, 2}, 0, 0},
                                {"half", DType::bf16, {3}, 0, 0},
                                {"mean", DType::f32, {2}, 0, 0},
                                {"count", DType::i64, {}, 0, 0}});
    layout.set_buffers({"mean"});
    Result<Writer> writer = Writer::create(model_, layout);
    ASSERT_TRUE(writer);
    for (std::size_t i = 0; i < layout.data_bytes; ++i) data_.push_back(static_cast<std::byte>(i));
    ASSERT_TRUE(writer->write(data_));
    ASSERT_TRUE(writer->finish());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::vector<std::byte> bytes(const Reader& reader, const std::string& name) {
    const TensorInfo* info = reader.manifest().find(name);
    EXPECT_NE(info, nullptr) << name;
    std::vector<std::byte> out(info->bytes());
    EXPECT_TRUE(reader.read_tensor(*info, out));
    return out;
  }

  std::filesystem::path folder_;
  std::filesystem::path model_;
  std::vector<std::byte> data_;
};

TEST_F(ControlVariates, EveryParameterGetsOneOfZerosAndBuffersAndIntegersNone) {
  const Reader model = *Reader::open(model_);
  EXPECT_FALSE(has_controls(model.manifest()));
  const Manifest layout = *with_controls(model.manifest());
  std::vector<std::string> names;
  for (const TensorInfo& tensor : layout.tensors) {
    if (is_control(tensor)) names.push_back(describe(tensor) + " " + tensor.name);
  }
  EXPECT_THAT(names, UnorderedElementsAre("f32 [2, 2] fedqueue.control.weight",
                                          "f32 [3] fedqueue.control.half"));
  const std::filesystem::path copy = folder_ / "with";
  ASSERT_TRUE(copy_tensors(model, layout, copy));
  const Reader with = *Reader::open(copy);
  EXPECT_TRUE(has_controls(with.manifest()));
  EXPECT_EQ(bytes(with, "fedqueue.control.weight"), std::vector<std::byte>(16, std::byte{0}));
  for (const char* name : {"weight", "half", "mean", "count"}) {
    EXPECT_EQ(bytes(with, name), bytes(model, name)) << name;
  }
  EXPECT_EQ(with.manifest().buffers(), std::vector<std::string>{"mean"});
}

TEST_F(ControlVariates, StrippingThemGivesTheModelBack) {
  const Reader model = *Reader::open(model_);
  ASSERT_TRUE(copy_tensors(model, *with_controls(model.manifest()), folder_ / "with"));
  const Reader with = *Reader::open(folder_ / "with");
  ASSERT_TRUE(copy_tensors(with, *without_controls(with.manifest()), folder_ / "without"));
  const Reader without = *Reader::open(folder_ / "without");
  EXPECT_TRUE(differences(model.manifest(), without.manifest()).empty());
  std::vector<std::byte> data(without.manifest().data_bytes);
  ASSERT_TRUE(without.read(0, data));
  EXPECT_EQ(data, data_);
}

// x = 1, y = 0.8, four steps of 0.05, c = 0.5: c_k goes from 0.3 to 0.8.
TEST(ControlDifference, FollowsTheWorkedExample) {
  EXPECT_NEAR(0.3 + control_difference(0.8f - 1.0f, 0.5f, 4 * 0.05), 0.8, 1e-6);
  EXPECT_EQ(control_difference(0, 0.5f, 0), 0) << "nothing was learned";
}

std::vector<std::byte> data_of(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<float> values_of(const Manifest& layout, const std::vector<std::byte>& data,
                             const std::string& name) {
  const TensorInfo& info = *layout.find(name);
  std::vector<float> values(info.elements());
  std::memcpy(values.data(), data.data() + info.begin, info.bytes());
  return values;
}

TEST(AttachedControls, EachParameterHasItsOwnDifferenceAndTheDeltaStays) {
  Manifest model = *lay_out({{"a", DType::f32, {1}, 0, 0},
                             {"b", DType::f32, {2}, 0, 0},
                             {"mean", DType::f32, {1}, 0, 0}});
  model.set_buffers({"mean"});
  const auto delta = data_of({-0.2f, 0.1f, 0, 7});
  const std::vector<float> server = {0.5f, 0.25f, -1};
  const auto update = attach_controls(model, delta, server, 0.2);
  ASSERT_TRUE(update) << update.error().message;
  EXPECT_TRUE(differences(*with_controls(model), update->layout).empty());
  EXPECT_EQ(values_of(update->layout, update->data, "a"), std::vector<float>{-0.2f});
  EXPECT_EQ(values_of(update->layout, update->data, "b"), (std::vector<float>{0.1f, 0}));
  EXPECT_EQ(values_of(update->layout, update->data, "mean"), std::vector<float>{7});
  EXPECT_NEAR(values_of(update->layout, update->data, "fedqueue.control.a")[0], 0.5, 1e-6);
  const auto b = values_of(update->layout, update->data, "fedqueue.control.b");
  EXPECT_NEAR(b[0], -0.75, 1e-6);
  EXPECT_NEAR(b[1], 1, 1e-6);
}

TEST(RearrangedData, CopiesByNameAndFillsUpWithZeros) {
  const Manifest model = *lay_out({{"a", DType::f32, {1}, 0, 0}, {"b", DType::f32, {2}, 0, 0}});
  const auto data = data_of({1, 2, 3});
  const Manifest with = *with_controls(model);
  const auto wide = rearranged_data(model, data, with);
  EXPECT_EQ(values_of(with, wide, "b"), (std::vector<float>{2, 3}));
  EXPECT_EQ(values_of(with, wide, "fedqueue.control.b"), (std::vector<float>{0, 0}));
  EXPECT_EQ(rearranged_data(with, wide, model), data);
}

}  // namespace
}  // namespace fedqueue::tensor
