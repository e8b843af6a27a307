#include "simulation/federation/algebra.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/tensor/control.h"

namespace fedqueue::simulation {
namespace {

tensor::Manifest one_tensor(std::int64_t elements) {
  tensor::TensorInfo info;
  info.name = "w";
  info.dtype = tensor::DType::f32;
  info.shape = {elements};
  return *tensor::lay_out({info});
}

SharedBytes shared(std::vector<float> values) {
  return std::make_shared<const Bytes>(to_bytes(values));
}

ReduceStarted plan(std::vector<double> weights, bool rebuild) {
  ReduceStarted result;
  for (std::size_t k = 0; k < weights.size(); ++k)
    result.updates.push_back(
        {UpdateId("u-" + std::to_string(k)), FacilityId("f"), 0, 0, weights[k]});
  result.rebuild_models = rebuild;
  return result;
}

float first(const Reduced& reduced) { return to_floats(reduced.model)[0]; }

TEST(TensorAlgebra, AddsWeightedDeltas) {
  TensorAlgebra algebra(one_tensor(2));
  const auto result = algebra.reduce(plan({0.5, 0.25}, false), to_bytes(std::vector<float>{1, 2}),
                                     {shared({0.4F, 0}), shared({-0.4F, 4})}, {}, nullptr);
  ASSERT_TRUE(result);
  EXPECT_FLOAT_EQ(to_floats(result->model)[0], 1.1F);
  EXPECT_FLOAT_EQ(to_floats(result->model)[1], 3);
  EXPECT_NEAR(result->step_norm, std::sqrt(0.01 + 1), 1e-6);
}

TEST(TensorAlgebra, MixesModelsAndKeepsTheRestOfTheCurrentOne) {
  // w = 1, w_k = 2 (base 1.5 + 0.5), a = 0.3: 0.7·1 + 0.3·2.
  TensorAlgebra algebra(one_tensor(1));
  ReduceStarted mixing = plan({0.3}, true);
  mixing.keep = 0.7;
  const auto result = algebra.reduce(mixing, to_bytes(std::vector<float>{1}), {shared({0.5F})},
                                     {shared({1.5F})}, nullptr);
  ASSERT_TRUE(result);
  EXPECT_FLOAT_EQ(first(*result), 1.3F);
}

TEST(TensorAlgebra, WeightsThatSumToOneAverageTheModels) {
  // Scalar models 1, 2, 4 with weights 0.38625, 0.415, 0.19875: 2.01125.
  TensorAlgebra algebra(one_tensor(1));
  const auto result = algebra.reduce(
      plan({0.38625, 0.415, 0.19875}, true), to_bytes(std::vector<float>{0.5F}),
      {shared({1}), shared({1}), shared({2})}, {shared({0}), shared({1}), shared({2})}, nullptr);
  ASSERT_TRUE(result);
  EXPECT_NEAR(first(*result), 2.01125, 1e-6);
}

TEST(TensorAlgebra, ControlVariatesHaveAWeightOfTheirOwnAndNoOptimiser) {
  // c = 0.5, N = 2, one of them with the difference 0.5: 0.75, whatever a_k and the server's step.
  const tensor::Manifest layout = *tensor::with_controls(one_tensor(1));
  const bool control_first = tensor::is_control(layout.tensors[0]);
  const auto both = [&](float weight, float control) {
    return control_first ? std::vector<float>{control, weight}
                         : std::vector<float>{weight, control};
  };
  TensorAlgebra algebra(layout);
  ReduceStarted step = plan({0.3}, false);
  step.control_weight = 0.5;
  step.step.optimizer = ServerOptimizer::momentum;
  step.step.learning_rate = 2;
  const auto result =
      algebra.reduce(step, to_bytes(both(1, 0.5F)), {shared(both(-0.2F, 0.5F))}, {}, nullptr);
  ASSERT_TRUE(result);
  const auto values = to_floats(result->model);
  EXPECT_NEAR(values[control_first ? 1 : 0], 1 - 2 * 0.3 * 0.2, 1e-6);
  EXPECT_NEAR(values[control_first ? 0 : 1], 0.75, 1e-6);
  EXPECT_NEAR(result->step_norm, 2 * 0.3 * 0.2, 1e-6) << "control variates are no part of it";
  const auto norm = algebra.screen(to_bytes(both(3, 100)), to_bytes(both(1, 0)), 0);
  ASSERT_TRUE(norm);
  EXPECT_NEAR(*norm, 3, 1e-6);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(algebra.screen(to_bytes(both(3, infinity)), to_bytes(both(1, 0)), 0).error().code,
            Code::not_finite);
}

TEST(TensorAlgebra, GoesOnWithTheOptimisersState) {
  // FedAvgM with 0.9: deltas 0.2 and −0.1 lead from 1 to 1.2 and 1.28.
  TensorAlgebra algebra(one_tensor(1));
  ReduceStarted one = plan({1}, false);
  one.step.optimizer = ServerOptimizer::momentum;
  const auto first_step =
      algebra.reduce(one, to_bytes(std::vector<float>{1}), {shared({0.2F})}, {}, nullptr);
  ASSERT_TRUE(first_step);
  EXPECT_NEAR(first(*first_step), 1.2, 1e-6);
  ASSERT_TRUE(first_step->state);
  const auto second_step =
      algebra.reduce(one, first_step->model, {shared({-0.1F})}, {}, &*first_step->state);
  ASSERT_TRUE(second_step);
  EXPECT_NEAR(first(*second_step), 1.28, 1e-6);
}

TEST(TensorAlgebra, CountersTakeTheLargestValue) {
  tensor::TensorInfo counter;
  counter.name = "bn.num_batches_tracked";
  counter.dtype = tensor::DType::i64;
  tensor::Manifest manifest = *tensor::lay_out({counter});
  TensorAlgebra algebra(manifest);
  const auto bytes = [](std::int64_t value) {
    const auto view = std::as_bytes(std::span(&value, 1));
    return Bytes(view.begin(), view.end());
  };
  const auto result = algebra.reduce(
      plan({0.5, 0.5}, false), bytes(3),
      {std::make_shared<const Bytes>(bytes(9)), std::make_shared<const Bytes>(bytes(5))}, {},
      nullptr);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->model, bytes(9));
}

TEST(TensorAlgebra, WhatIsNotFiniteOrOfAnotherSizeIsRefused) {
  TensorAlgebra algebra(one_tensor(1));
  const Bytes model = to_bytes(std::vector<float>{1});
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(algebra.screen(*shared({infinite}), model, 0).error().code, Code::not_finite);
  EXPECT_EQ(algebra.screen(*shared({1, 2}), model, 0).error().code, Code::model_mismatch);
  EXPECT_EQ(algebra.screen(*shared({3}), model, 2).error().code, Code::aggregation);
  EXPECT_NEAR(*algebra.screen(*shared({3}), model, 4), 3, 1e-12);
  EXPECT_FALSE(algebra.reduce(plan({1}, false), model, {shared({infinite})}, {}, nullptr));
}

}  // namespace
}  // namespace fedqueue::simulation
