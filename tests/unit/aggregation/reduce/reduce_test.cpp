// What users rely on of the weighted sum: its arithmetic, its rules for every type, its errors.
#include "aggregation/reduce/reduce.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "core/base/prng.h"
#include "model_files.h"

namespace fedqueue {
namespace {

using tensor::DType;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

class Reduce : public ModelFiles {
 protected:
  // The current model and equally named updates with these weights.
  ReduceRequest request(const std::vector<double>& weights) {
    ReduceRequest request;
    request.current = path("current");
    for (std::size_t k = 0; k < weights.size(); ++k) {
      request.updates.push_back({path("update" + std::to_string(k)), {}, weights[k]});
    }
    request.output = path("output");
    return request;
  }
  ReduceResult run(const ReduceRequest& request) {
    auto result = reduce(request);
    EXPECT_TRUE(result) << result.error().message;
    return result ? *result : ReduceResult{};
  }
  void expect_failure(const ReduceRequest& request, Code code, const std::string& text) {
    const auto result = reduce(request);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_THAT(result.error().message, HasSubstr(text));
    EXPECT_FALSE(std::filesystem::exists(request.output)) << "nothing is left behind";
  }
};

TEST_F(Reduce, AddsWeightedDeltasToTheModel) {
  write("current", {f32("w", {1, 2, 4})});
  write("update0", {f32("w", {1, 0, -2})});
  write("update1", {f32("w", {0, 4, 8})});
  const ReduceResult result = run(request({0.5, 0.25}));
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(1.5, 3, 5));
  EXPECT_DOUBLE_EQ(result.step_norm, std::sqrt(0.25 + 1 + 1));
  const std::string file = *read_file(path("output"));
  EXPECT_EQ(result.bytes, file.size());
  EXPECT_EQ(result.sha256, sha256_hex(file));
}

// The published weights by assigned steps and by samples, on scalar models 1, 2 and 4.
TEST_F(Reduce, RebuildsModelsAsPublished) {
  write("current", {scalar(DType::f64, "w", 100)});
  write("base0", {scalar(DType::f64, "w", 0.5)});
  write("base1", {scalar(DType::f64, "w", 3)});
  write("update0", {scalar(DType::f64, "w", 0.5)});
  write("update1", {scalar(DType::f64, "w", -1)});
  write("update2", {scalar(DType::f64, "w", 3.5)});
  ReduceRequest by_steps = request({0.38625, 0.415, 0.19875});
  by_steps.rebuild_models = true;
  by_steps.updates[0].base = path("base0");
  by_steps.updates[1].base = path("base1");
  by_steps.updates[2].base = path("base0");
  const ReduceResult result = run(by_steps);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(DoubleNear(2.01125, 1e-12)));
  EXPECT_NEAR(result.step_norm, 100 - 2.01125, 1e-12);

  ReduceRequest by_samples = by_steps;
  by_samples.updates[0].weight = 2.0 / 7;
  by_samples.updates[1].weight = 4.0 / 7;
  by_samples.updates[2].weight = 1.0 / 7;
  run(by_samples);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(DoubleNear(2, 1e-12)));
}

TEST_F(Reduce, HundredBrainFloatUpdatesAverageExactly) {
  const double value = 1 + 0x1.0p-7;
  write("current", {of_type(DType::bf16, "w", {0})});
  write("update0", {of_type(DType::bf16, "w", {value})});
  ReduceRequest many = request({});
  many.updates.assign(100, {path("update0"), {}, 0.01});
  run(many);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(value));
}

TEST_F(Reduce, HalfPrecisionSumsMayPassTheLargestHalfOnTheWay) {
  // 10 000 × 10 = 100 000 is beyond the largest half, 65 504; the result is not.
  write("current", {of_type(DType::f16, "w", {-60000})});
  write("update0", {of_type(DType::f16, "w", {10})});
  write("update1", {of_type(DType::f16, "w", {-10})});
  ReduceRequest many = request({});
  many.updates.assign(10'000, {path("update0"), {}, 1});
  run(many);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(40000));

  many.updates.insert(many.updates.end(), 10'000, {path("update1"), {}, 1});
  run(many);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(-60000));
}

TEST_F(Reduce, CountersTakeTheMaximumAndKeepTypeAndShape) {
  write("current", {scalar(DType::i64, "bn.num_batches_tracked", 5)});
  write("update0", {scalar(DType::i64, "bn.num_batches_tracked", 7)});
  write("update1", {scalar(DType::i64, "bn.num_batches_tracked", 12)});
  run(request({0.5, 0.5}));
  EXPECT_THAT(values(path("output"), "bn.num_batches_tracked"), ElementsAre(12));
  const auto reader = tensor::Reader::open(path("output"));
  const tensor::TensorInfo& info = reader->manifest().tensors.front();
  EXPECT_EQ(info.dtype, DType::i64);
  EXPECT_TRUE(info.shape.empty());

  write("current", {scalar(DType::i64, "bn.num_batches_tracked", 40)});
  run(request({0.5, 0.5}));
  EXPECT_THAT(values(path("output"), "bn.num_batches_tracked"), ElementsAre(40));
}

TEST_F(Reduce, OtherIntegersTakeTheWeightedMeanHalfToEven) {
  write("current",
        {of_type(DType::i32, "n", {9, 9, 9, 9}), of_type(DType::boolean, "b", {0, 1, 0})});
  write("update0",
        {of_type(DType::i32, "n", {1, 2, -1, 10}), of_type(DType::boolean, "b", {1, 1, 0})});
  write("update1",
        {of_type(DType::i32, "n", {2, 3, -2, 20}), of_type(DType::boolean, "b", {0, 0, 1})});
  run(request({0.4, 0.4}));  // normalised: one half each
  EXPECT_THAT(values(path("output"), "n"), ElementsAre(2, 2, -2, 15));
  EXPECT_THAT(values(path("output"), "b"), ElementsAre(1, 1, 1));
  run(request({0.6, 0.2}));
  EXPECT_THAT(values(path("output"), "n"), ElementsAre(1, 2, -1, 12));
  EXPECT_THAT(values(path("output"), "b"), ElementsAre(1, 1, 0));
}

TEST_F(Reduce, RunningVarianceKeepsTheSpreadOfTheMeans) {
  const ModelFiles::Metadata buffers{{"fedqueue.buffers", "bn.running_mean,bn.running_var"}};
  write("current", {f32("bn.running_mean", {10}), f32("bn.running_var", {5})}, buffers);
  // Means 0 and 2, variances 1 and 1, as deltas against the current model.
  write("update0", {f32("bn.running_mean", {-10}), f32("bn.running_var", {-4})}, buffers);
  write("update1", {f32("bn.running_mean", {-8}), f32("bn.running_var", {-4})}, buffers);
  run(request({0.5, 0.5}));
  EXPECT_THAT(values(path("output"), "bn.running_mean"), ElementsAre(1));
  EXPECT_THAT(values(path("output"), "bn.running_var"), ElementsAre(2));

  ReduceRequest rebuilt = request({0.5, 0.5});
  rebuilt.rebuild_models = true;
  for (ReduceUpdate& update : rebuilt.updates) update.base = path("current");
  run(rebuilt);
  EXPECT_THAT(values(path("output"), "bn.running_mean"), ElementsAre(1));
  EXPECT_THAT(values(path("output"), "bn.running_var"), ElementsAre(2));
}

TEST_F(Reduce, PublishedBuffersAreUnweightedAndTruncated) {
  const ModelFiles::Metadata buffers{{"fedqueue.buffers", "mean"}};
  write("current", {f32("w", {0}), f32("mean", {1}), of_type(DType::i64, "n", {100, 100})},
        buffers);
  write("update0", {f32("w", {1}), f32("mean", {3}), of_type(DType::i64, "n", {7, -7})}, buffers);
  write("update1", {f32("w", {2}), f32("mean", {5}), of_type(DType::i64, "n", {12, -12})}, buffers);
  ReduceRequest published = request({0.75, 0.25});
  published.buffers = BufferRule::unweighted_truncated;
  run(published);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(1.25));
  EXPECT_THAT(values(path("output"), "mean"), ElementsAre(5));
  EXPECT_THAT(values(path("output"), "n"), ElementsAre(9, -9));
}

TEST_F(Reduce, EmptyAndDimensionlessTensorsStayWhatTheyAre) {
  const TestTensor empty{"empty", DType::f32, {0, 3}, {}};
  write("current", {empty, scalar(DType::f32, "s", 1)}, {{"format", "pt"}});
  write("update0", {empty, scalar(DType::f32, "s", 2)});
  ReduceRequest with_metadata = request({1});
  with_metadata.metadata = {{"fedqueue.version", "7"}};
  run(with_metadata);
  EXPECT_THAT(values(path("output"), "s"), ElementsAre(3));
  const auto reader = tensor::Reader::open(path("output"));
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->manifest().find("empty")->shape, (std::vector<std::int64_t>{0, 3}));
  EXPECT_TRUE(reader->manifest().find("s")->shape.empty());
  EXPECT_EQ(reader->manifest().metadata,
            (ModelFiles::Metadata{{"format", "pt"}, {"fedqueue.version", "7"}}));

  write("current", {});
  write("update0", {});
  EXPECT_EQ(run(request({1})).step_norm, 0);
}

TEST_F(Reduce, WithoutUpdatesTheModelStays) {
  write("current",
        {f32("w", {1, 2}), of_type(DType::i8, "n", {3}), of_type(DType::boolean, "b", {1})});
  EXPECT_EQ(run(request({})).step_norm, 0);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(1, 2));
  EXPECT_THAT(values(path("output"), "n"), ElementsAre(3));
  EXPECT_THAT(values(path("output"), "b"), ElementsAre(1));
  ReduceRequest nothing = request({});
  nothing.rebuild_models = true;
  nothing.output = path("nothing");
  expect_failure(nothing, Code::aggregation, "no update");
}

TEST_F(Reduce, TensorsAreFoundByNameWhereverTheyLie) {
  const std::vector<TestTensor> model = {f32("a", {1, 2}), f32("b", {3}),
                                         of_type(DType::i8, "c", {1})};
  write("current", model);
  const std::vector<TestTensor> update = {f32("a", {10, 20}), f32("b", {30}),
                                          of_type(DType::i8, "c", {5})};
  tensor::Manifest turned;  // i8 first, so that the floats are not even aligned
  turned.tensors = {
      {"c", DType::i8, {1}, 0, 1}, {"b", DType::f32, {1}, 1, 5}, {"a", DType::f32, {2}, 5, 13}};
  turned.data_bytes = 13;
  write_laid_out("update0", update, turned);
  run(request({1}));
  EXPECT_THAT(values(path("output"), "a"), ElementsAre(11, 22));
  EXPECT_THAT(values(path("output"), "b"), ElementsAre(33));
  EXPECT_THAT(values(path("output"), "c"), ElementsAre(5));
}

// More files than a process may usually hold open.
TEST_F(Reduce, ThousandsOfUpdatesNeedNoThousandsOfDescriptors) {
  write("current", {f32("w", {1})});
  ReduceRequest many = request(std::vector<double>(1500, 1));
  write("update0", {f32("w", {2})});
  for (std::size_t k = 1; k < many.updates.size(); ++k) {
    std::filesystem::create_hard_link(path("update0"), many.updates[k].update);
  }
  run(many);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(3001));
}

TEST_F(Reduce, SumsThatAreNotNumbersNameTheTensor) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  write("current", {f32("good", {1}), f32("layer.weight", {1, 2, 3})});
  write("update0", {f32("good", {1}), f32("layer.weight", {0, 0, nan})});
  expect_failure(request({1}), Code::not_finite, "'layer.weight' is NaN or infinite at element 2");
  write("update0", {f32("good", {1}), f32("layer.weight", {0, 3e38, 0})});
  expect_failure(request({2}), Code::not_finite, "'layer.weight' is NaN or infinite at element 1");

  write("current", {of_type(DType::f16, "half", {60000})});
  write("update0", {of_type(DType::f16, "half", {60000})});
  expect_failure(request({1}), Code::not_finite, "'half'");
}

TEST_F(Reduce, HugeButFiniteStepsAreAllowed) {
  write("current", {of_type(DType::f64, "w", {1e300})});
  write("update0", {of_type(DType::f64, "w", {-1e300})});
  const ReduceResult result = run(request({1}));
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(0));
  EXPECT_TRUE(std::isfinite(result.step_norm));
}

TEST_F(Reduce, OtherStructuresAreRefusedByName) {
  write("current", {f32("w", {1, 2})});
  write("update0", {f32("w", {1, 2, 3})});
  expect_failure(request({1}), Code::model_mismatch, "tensor 'w': expected f32 [2], got f32 [3]");
  write("update0", {f32("v", {1, 2})});
  expect_failure(request({1}), Code::model_mismatch, "tensor 'w'");
  std::filesystem::remove(path("update0"));
  expect_failure(request({1}), Code::storage, "update0");
  write("update0", {f32("w", {1, 2})});
  expect_failure(request({std::numeric_limits<double>::infinity()}), Code::aggregation, "weight");
}

}  // namespace
}  // namespace fedqueue
