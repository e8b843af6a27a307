// Building headers, comparing structures, and the roles of buffers and counters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tensor/manifest.h"

namespace fedqueue::tensor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TensorInfo info(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
  TensorInfo tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

TEST(Manifest, LaidOutHeaderIsReadBackAsItWas) {
  auto manifest =
      lay_out({info("fc.weight", DType::f32, {3, 5}), info("odd", DType::i8, {3}),
               info("scalar", DType::f64, {}), info("empty \"quoted\" é", DType::f32, {0}),
               info("half", DType::f16, {7})},
              {{"format", "pt"}, {"note", "line\nbreak"}});
  ASSERT_TRUE(manifest) << manifest.error().message;
  const std::string header = build_header(*manifest);
  EXPECT_EQ(header.size() % 8, 0u);
  EXPECT_EQ(header.size(), manifest->header_bytes);
  const auto read =
      parse_header(std::as_bytes(std::span(header.data(), header.size())), manifest->file_bytes());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->metadata, manifest->metadata);
  EXPECT_EQ(read->data_bytes, manifest->data_bytes);
  EXPECT_THAT(differences(*manifest, *read), IsEmpty());
  EXPECT_EQ(build_header(*read), header) << "one manifest has one spelling";
  for (const TensorInfo& tensor : read->tensors) {
    EXPECT_EQ(tensor.begin % size_of(tensor.dtype), 0u) << tensor.name;
    EXPECT_EQ(*read->find(tensor.name), *manifest->find(tensor.name));
  }
}

TEST(Manifest, OrderOfDeclarationDoesNotMatter) {
  const auto one = lay_out({info("a", DType::f32, {2}), info("b", DType::i64, {})});
  const auto other = lay_out({info("b", DType::i64, {}), info("a", DType::f32, {2})});
  ASSERT_TRUE(one && other);
  EXPECT_EQ(build_header(*one), build_header(*other));
}

TEST(Manifest, ImpossibleTensorsAreNotLaidOut) {
  EXPECT_FALSE(lay_out({info("a", DType::f32, {-1})}));
  EXPECT_FALSE(lay_out({info("a", DType::f64, {1ll << 61})}));
  EXPECT_FALSE(lay_out({info("a", DType::i8, {1ll << 62}), info("b", DType::i8, {1ll << 62})}));
  const auto twice = lay_out({info("a", DType::f32, {1}), info("a", DType::f32, {1})});
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("same name"));
}

TEST(Manifest, DifferencesNameEveryTensor) {
  const auto expected =
      lay_out({info("fc1.weight", DType::f32, {128, 784}), info("fc1.bias", DType::f32, {128}),
               info("gone", DType::f32, {1}), info("scalar", DType::i64, {})});
  const auto got =
      lay_out({info("fc1.weight", DType::f32, {64, 784}), info("fc1.bias", DType::bf16, {128}),
               info("new", DType::u8, {2}), info("scalar", DType::i64, {1})});
  ASSERT_TRUE(expected && got);
  const auto sentences = differences(*expected, *got);
  EXPECT_THAT(sentences, testing::UnorderedElementsAre(
                             "tensor 'fc1.weight': expected f32 [128, 784], got f32 [64, 784]",
                             "tensor 'fc1.bias': expected f32 [128], got bf16 [128]",
                             "tensor 'gone': expected f32 [1], but it is missing",
                             "tensor 'scalar': expected i64 [], got i64 [1]",
                             "tensor 'new': not part of the model, got u8 [2]"));
  EXPECT_THAT(differences(*expected, *expected), IsEmpty());
  EXPECT_THAT(summary(sentences, 2), HasSubstr("; and 3 more"));
}

TEST(Manifest, BuffersAndCountersAreKnownByName) {
  Manifest manifest;
  EXPECT_THAT(manifest.buffers(), IsEmpty());
  manifest.set_buffers({"bn.running_mean", "bn.running_var"});
  EXPECT_EQ(manifest.metadata.at("fedqueue.buffers"), "bn.running_mean,bn.running_var");
  EXPECT_THAT(manifest.buffers(), ElementsAre("bn.running_mean", "bn.running_var"));
  EXPECT_TRUE(manifest.is_buffer("bn.running_var"));
  EXPECT_FALSE(manifest.is_buffer("bn.running"));
  manifest.set_buffers({});
  EXPECT_FALSE(manifest.metadata.contains("fedqueue.buffers"));

  EXPECT_TRUE(is_counter(info("bn1.num_batches_tracked", DType::i64, {})));
  EXPECT_FALSE(is_counter(info("bn1.num_batches_tracked", DType::f32, {})));
  EXPECT_FALSE(is_counter(info("bn1.weight", DType::i64, {})));
}

}  // namespace
}  // namespace fedqueue::tensor
