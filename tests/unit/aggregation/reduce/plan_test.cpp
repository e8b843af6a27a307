// The cut into items covers every element once, in order, within its bounds.
#include "aggregation/reduce/plan.h"

#include <gtest/gtest.h>

namespace fedqueue {
namespace {

using tensor::DType;

tensor::Manifest model() {
  std::vector<tensor::TensorInfo> tensors;
  const auto add = [&](const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    tensors.push_back({name, dtype, std::move(shape), 0, 0});
  };
  add("a.weight", DType::f32, {100, 10});
  add("bn.running_mean", DType::f32, {40});
  add("bn.running_var", DType::f32, {40});
  add("bn.num_batches_tracked", DType::i64, {});
  add("other.running_var", DType::f32, {3});
  add("empty", DType::f32, {0});
  add("half", DType::f16, {33});
  add("ids", DType::i32, {5});
  add("mask", DType::boolean, {301});
  tensor::Manifest manifest = *tensor::lay_out(std::move(tensors));
  manifest.set_buffers({"bn.running_mean", "bn.running_var", "other.running_var"});
  return manifest;
}

TEST(Plan, EveryElementIsInOneItem) {
  const tensor::Manifest manifest = model();
  for (const std::size_t item_bytes : {64u, 100u, 1000u, 1u << 20}) {
    const Plan plan = make_plan(manifest, BufferRule::weighted, item_bytes);
    std::uint64_t covered = 0;
    std::size_t segments = 0;
    for (const Item& item : plan.items) {
      ASSERT_EQ(item.begin, covered);
      ASSERT_GT(item.bytes, 0u);
      ASSERT_LE(item.bytes, item_bytes);
      ASSERT_LE(item.bytes, plan.item_bytes_max);
      std::size_t inside = 0;
      for (const Segment& segment : plan.segments_of(item)) {
        const tensor::TensorInfo& tensor = manifest.tensors[segment.tensor];
        ASSERT_EQ(segment.item_offset, inside);
        ASSERT_EQ(tensor.begin + segment.first * size_of(tensor.dtype), covered + inside);
        ASSERT_EQ(segment.accumulator_offset % 64, 0u);
        inside += segment.elements * size_of(tensor.dtype);
        ++segments;
      }
      ASSERT_EQ(inside, item.bytes);
      covered += item.bytes;
    }
    EXPECT_EQ(covered, manifest.data_bytes);
    EXPECT_EQ(segments, plan.segments.size());
  }
}

TEST(Plan, EveryTensorHasItsRule) {
  const tensor::Manifest manifest = model();
  const auto index = manifest.index();
  const Plan weighted = make_plan(manifest, BufferRule::weighted);
  const auto rule = [&](const Plan& plan, const char* name) {
    return plan.tensors[index.at(name)];
  };
  EXPECT_EQ(rule(weighted, "a.weight").rule, MergeRule::float_sum);
  EXPECT_EQ(rule(weighted, "bn.running_mean").rule, MergeRule::float_sum);
  EXPECT_EQ(rule(weighted, "bn.running_var").rule, MergeRule::pooled_variance);
  EXPECT_EQ(rule(weighted, "bn.running_var").mean_tensor, index.at("bn.running_mean"));
  EXPECT_EQ(rule(weighted, "other.running_var").rule, MergeRule::float_sum) << "it has no mean";
  EXPECT_EQ(rule(weighted, "bn.num_batches_tracked").rule, MergeRule::integer_maximum);
  EXPECT_EQ(rule(weighted, "ids").rule, MergeRule::integer_mean);
  EXPECT_EQ(rule(weighted, "mask").rule, MergeRule::boolean_mean);

  const Plan published = make_plan(manifest, BufferRule::unweighted_truncated);
  EXPECT_FALSE(rule(published, "a.weight").equal_weights);
  EXPECT_TRUE(rule(published, "bn.running_var").equal_weights);
  EXPECT_EQ(rule(published, "bn.running_var").rule, MergeRule::float_sum);
  EXPECT_EQ(rule(published, "bn.num_batches_tracked").rule, MergeRule::integer_truncated_mean);
}

}  // namespace
}  // namespace fedqueue
