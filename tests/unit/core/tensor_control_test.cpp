// What users rely on of control variates in model files: which tensors have one, and that adding
// and stripping them leaves the model alone.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "core/tensor/control.h"

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

}  // namespace
}  // namespace fedqueue::tensor
