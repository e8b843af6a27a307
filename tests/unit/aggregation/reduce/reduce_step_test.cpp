// What users rely on of a reduction that ends in a server optimiser's step, in a mixture with the
// current model, or in control variates: the numbers of the methods through real files, a state
// file that goes on from round to round, and errors that leave nothing behind.
#include <gmock/gmock.h>

#include <cmath>

#include "aggregation/optimizer/kernels.h"
#include "aggregation/reduce/reduce.h"
#include "core/base/prng.h"
#include "model_files.h"

namespace fedqueue {
namespace {

using tensor::DType;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double near = 1e-9;

class ReduceStep : public ModelFiles {
 protected:
  ReduceRequest request(const std::vector<double>& weights) {
    ReduceRequest request;
    request.current = path("current");
    for (std::size_t k = 0; k < weights.size(); ++k) {
      request.updates.push_back({path("update" + std::to_string(k)), path("base"), weights[k]});
    }
    request.output = path("output");
    return request;
  }
  ReduceResult run(const ReduceRequest& request) {
    auto result = reduce(request);
    EXPECT_TRUE(result) << result.error().message;
    return result ? *result : ReduceResult{};
  }

  // Pushes the deltas through the optimiser one by one, each with a file of state; half of each
  // comes from one update and half from another.
  std::vector<double> push_all(const ServerStep& step, const std::vector<double>& deltas) {
    write("current", {scalar(DType::f64, "w", 1)});
    std::vector<double> weights;
    for (std::size_t i = 0; i < deltas.size(); ++i) {
      write("update0", {scalar(DType::f64, "w", 2 * deltas[i])});
      write("update1", {scalar(DType::f64, "w", 0.5 * deltas[i])});
      ReduceRequest next = request({0.25, 1});
      next.step = step;
      if (i > 0) next.state_input = path("state" + std::to_string(i));
      next.state_output = path("state" + std::to_string(i + 1));
      const ReduceResult result = run(next);
      EXPECT_TRUE(result.state);
      const std::string file = *read_file(next.state_output);
      EXPECT_EQ(result.state->bytes, file.size());
      EXPECT_EQ(result.state->sha256, sha256_hex(file));
      EXPECT_EQ(result.state->began, i == 0);
      weights.push_back(values(path("output"), "w")[0]);
      std::filesystem::rename(path("output"), path("current"));
    }
    return weights;
  }
};

ServerStep adaptive(ServerOptimizer optimizer) {
  return {
      .optimizer = optimizer, .learning_rate = 0.1, .momentum = 0.9, .beta2 = 0.99, .tau = 1e-3};
}

TEST_F(ReduceStep, MomentumGoesOnFromItsStateFile) {
  EXPECT_THAT(push_all({.optimizer = ServerOptimizer::momentum}, {0.2, -0.1}),
              ElementsAre(DoubleNear(1.2, near), DoubleNear(1.28, near)));
  EXPECT_NEAR(values(path("state2"), "m/w")[0], 0.08, near);
}

TEST_F(ReduceStep, AdamGoesOnFromItsStateFile) {
  EXPECT_THAT(
      push_all(adaptive(ServerOptimizer::adam), {0.2, -0.1}),
      ElementsAre(DoubleNear(1.0951260516755887, near), DoubleNear(1.1294710594477033, near)));
  EXPECT_NEAR(values(path("state2"), "v/w")[0], 0.0004969801, near);
}

TEST_F(ReduceStep, YogiGoesOnFromItsStateFile) {
  EXPECT_THAT(
      push_all(adaptive(ServerOptimizer::yogi), {0.2, -0.1}),
      ElementsAre(DoubleNear(1.0951249219725039, near), DoubleNear(1.129337768829463, near)));
}

TEST_F(ReduceStep, AdagradGoesOnFromItsStateFile) {
  EXPECT_THAT(
      push_all(adaptive(ServerOptimizer::adagrad), {0.2, -0.1}),
      ElementsAre(DoubleNear(1.0099501249992187, near), DoubleNear(1.013511869540127, near)));
}

TEST_F(ReduceStep, NesterovGoesOnFromItsStateFile) {
  EXPECT_THAT(
      push_all({.optimizer = ServerOptimizer::nesterov, .learning_rate = 0.7}, {-0.2, -0.1}),
      ElementsAre(DoubleNear(0.734, near), DoubleNear(0.4876, near)));
}

TEST_F(ReduceStep, DelayedNesterovCountsItsPushesInTheStateFile) {
  EXPECT_THAT(
      push_all({.optimizer = ServerOptimizer::delayed_nesterov, .learning_rate = 0.7, .delay = 2},
               {-0.1, -0.05, -0.1, -0.05}),
      ElementsAre(DoubleNear(0.93, near), DoubleNear(0.8005, near), DoubleNear(0.7305, near),
                  // b = 0.9·0.15 + 0.15 = 0.285, w = 0.8005 − 0.7·(0.15 + 0.9·0.285)
                  DoubleNear(0.51595, near)));
}

TEST_F(ReduceStep, ALearningRateAloneScalesTheSumAndKeepsNoState) {
  write("current", {f32("w", {1, 2})});
  write("update0", {f32("w", {1, -2})});
  ReduceRequest scaled = request({0.5});
  scaled.step.learning_rate = 0.5;
  EXPECT_FALSE(run(scaled).state);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(1.25, 1.5));
}

// The momentum is (1, 0) in gradients, the gradient (0, 1): it is bent to (0.316…, 0.949…).
TEST_F(ReduceStep, HelocoBendsTheSumAndHandsOutTheLookAhead) {
  write("current", {of_type(DType::f64, "w", {5, 5})});
  write("update0", {of_type(DType::f64, "w", {0, -1})});
  write("state", {of_type(DType::f64, "m/w", {-1, 0}), of_type(DType::f64, "w/w", {1, 1})},
        {{"fedqueue.optimizer", "heloco"}, {"fedqueue.pushes", "3"}});
  ReduceRequest next = request({1});
  next.step = {.optimizer = ServerOptimizer::heloco, .learning_rate = 0.7};
  next.state_input = path("state");
  next.state_output = path("next");
  run(next);
  const double g0 = 0.316227766, g1 = 0.948683298;
  const double m0 = 0.9 + 0.1 * g0, m1 = 0.1 * g1;
  const double w0 = 1 - 0.7 * (g0 + 0.9 * m0), w1 = 1 - 0.7 * (g1 + 0.9 * m1);
  EXPECT_THAT(values(path("next"), "m/w"),
              ElementsAre(DoubleNear(-m0, 1e-8), DoubleNear(-m1, 1e-8)));
  EXPECT_THAT(values(path("next"), "w/w"), ElementsAre(DoubleNear(w0, 1e-8), DoubleNear(w1, 1e-8)));
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(DoubleNear(w0 - 0.7 * 0.9 * m0, 1e-8),
                                                       DoubleNear(w1 - 0.7 * 0.9 * m1, 1e-8)));
}

// Buffers, counters and control variates follow their own rules beside any optimiser.
TEST_F(ReduceStep, OptimisersActOnParametersAlone) {
  const ModelFiles::Metadata buffers = {{"fedqueue.buffers", "mean"}};
  write("current",
        {f32("w", {1}), f32("mean", {1}), of_type(DType::i64, "n", {3}),
         f32("fedqueue.control.w", {0.5})},
        buffers);
  write("update0",
        {f32("w", {0.5}), f32("mean", {2}), of_type(DType::i64, "n", {7}),
         f32("fedqueue.control.w", {0.5})},
        buffers);
  ReduceRequest next = request({0.5});
  next.step = {.optimizer = ServerOptimizer::momentum, .learning_rate = 2};
  next.control_weight = 0.5;
  next.state_output = path("state1");
  const ReduceResult result = run(next);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(1.5));
  EXPECT_THAT(values(path("output"), "mean"), ElementsAre(2));
  EXPECT_THAT(values(path("output"), "n"), ElementsAre(7));
  EXPECT_THAT(values(path("output"), "fedqueue.control.w"), ElementsAre(0.75));
  EXPECT_DOUBLE_EQ(result.step_norm, std::sqrt(0.25 + 1)) << "control variates are no model";
  const auto state = tensor::Reader::open(path("state1"));
  ASSERT_EQ(state->manifest().tensors.size(), 1u);
  EXPECT_EQ(state->manifest().tensors[0].name, "m/w");
}

// SCAFFOLD with two facilities of which one takes part: c = 0.5 + ½·(0.8 − 0.3).
TEST_F(ReduceStep, ControlVariatesAreSummedWithTheirOwnWeight) {
  write("current", {f32("w", {1}), f32("fedqueue.control.w", {0.5})});
  write("base", {f32("w", {1}), f32("fedqueue.control.w", {99})});
  write("update0", {f32("w", {-0.2}), f32("fedqueue.control.w", {0.8 - 0.3})});
  for (const bool rebuild : {false, true}) {
    ReduceRequest next = request({1});
    next.control_weight = 0.5;
    next.rebuild_models = rebuild;
    run(next);
    EXPECT_NEAR(values(path("output"), "w")[0], 0.8, 1e-7);
    EXPECT_NEAR(values(path("output"), "fedqueue.control.w")[0], 0.75, 1e-7)
        << "the c of the base does not matter";
  }
}

// FedAsync: a model 2 against 1 with a = 0.6 · 4^(−½) = 0.3.
TEST_F(ReduceStep, ModelsAreMixedWithAShareOfTheCurrentOne) {
  write("current", {scalar(DType::f64, "w", 1), of_type(DType::i64, "steps", {10})});
  write("base", {scalar(DType::f64, "w", 1.5), of_type(DType::i64, "steps", {0})});
  write("update0", {scalar(DType::f64, "w", 0.5), of_type(DType::i64, "steps", {20})});
  ReduceRequest next = request({0.3});
  next.rebuild_models = true;
  next.keep = 0.7;
  const ReduceResult result = run(next);
  EXPECT_THAT(values(path("output"), "w"), ElementsAre(DoubleNear(1.3, near)));
  EXPECT_THAT(values(path("output"), "steps"), ElementsAre(13));
  EXPECT_NEAR(result.step_norm, 0.3, near);
}

// Half of the current model (mean 0, variance 1) and half of another (mean 2, variance 1).
TEST_F(ReduceStep, MixingPoolsRunningVariances) {
  const ModelFiles::Metadata buffers = {{"fedqueue.buffers", "bn.running_mean,bn.running_var"}};
  write("current", {f32("bn.running_mean", {0}), f32("bn.running_var", {1})}, buffers);
  write("base", {f32("bn.running_mean", {1}), f32("bn.running_var", {0.5})}, buffers);
  write("update0", {f32("bn.running_mean", {1}), f32("bn.running_var", {0.5})}, buffers);
  ReduceRequest next = request({0.5});
  next.rebuild_models = true;
  next.keep = 0.5;
  run(next);
  EXPECT_THAT(values(path("output"), "bn.running_mean"), ElementsAre(1));
  EXPECT_THAT(values(path("output"), "bn.running_var"), ElementsAre(2)) << "1 + ½·1² + ½·1²";
}

// Tensors of several types, cut into several items of work.
TEST_F(ReduceStep, GivesTheSameBitsWithAnyNumberOfThreads) {
  Prng random(7);
  const auto noise = [&](std::size_t count, double scale) {
    std::vector<double> values(count);
    for (double& value : values) value = scale * random.normal();
    return values;
  };
  const auto model = [&](double scale) {
    return std::vector<TestTensor>{
        f32("a", noise(150001, scale)), of_type(DType::f64, "b", noise(40003, scale)),
        of_type(DType::bf16, "c", noise(200007, scale)), f32("d", noise(3, scale))};
  };
  write("current", model(1));
  for (int k = 0; k < 6; ++k) write("update" + std::to_string(k), model(0.01));
  for (const std::string_view name : server_optimizer_names()) {
    if (name == "none") continue;
    ServerStep step = adaptive(*parse_server_optimizer(name));
    step.delay = 2;
    std::string expected;
    for (const int threads : {1, 3, 8}) {
      ReduceRequest next = request({0.1, 0.2, 0.3, 0.1, 0.2, 0.1});
      next.step = step;
      next.threads = threads;
      next.state_output = path("first");
      run(next);
      std::swap(next.state_input, next.state_output);
      next.state_output = path("second");
      const ReduceResult result = run(next);
      const std::string digests = result.sha256 + result.state->sha256;
      if (expected.empty()) expected = digests;
      EXPECT_EQ(digests, expected) << name << " with " << threads << " threads";
    }
  }
}

TEST_F(ReduceStep, TheStateOfAnotherOptimiserIsNotReadAndANewOneBegins) {
  push_all({.optimizer = ServerOptimizer::nesterov}, {0.2});
  ReduceRequest next = request({0.25, 1});
  next.step = {.optimizer = ServerOptimizer::momentum};
  next.state_input = path("state1");
  next.state_output = path("state2");
  EXPECT_TRUE(run(next).state->began);
  EXPECT_THAT(values(path("state2"), "m/w"), ElementsAre(DoubleNear(0.2, near)));
}

TEST_F(ReduceStep, AStateOfAnotherModelIsAnErrorThatLeavesNothingBehind) {
  write("current", {f32("w", {1, 2})});
  write("update0", {f32("w", {1, 2})});
  write("state1", {f32("m/other", {1, 2})},
        {{"fedqueue.optimizer", "momentum"}, {"fedqueue.pushes", "1"}});
  ReduceRequest next = request({1});
  next.step = {.optimizer = ServerOptimizer::momentum};
  next.state_input = path("state1");
  next.state_output = path("state2");
  const auto result = reduce(next);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::model_mismatch);
  EXPECT_THAT(result.error().message, HasSubstr("it is not of this model"));
  EXPECT_FALSE(std::filesystem::exists(next.output));
  EXPECT_FALSE(std::filesystem::exists(next.state_output));
}

TEST_F(ReduceStep, ADivergedSumLeavesNeitherModelNorState) {
  write("current", {f32("w", {1, 2})});
  write("update0", {f32("w", {1, 3e38})});
  ReduceRequest next = request({100});
  next.step = {.optimizer = ServerOptimizer::momentum};
  next.state_output = path("state2");
  const auto result = reduce(next);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::not_finite);
  EXPECT_THAT(result.error().message, HasSubstr("'m/w' is NaN or infinite at element 1"));
  EXPECT_FALSE(std::filesystem::exists(next.output));
  EXPECT_FALSE(std::filesystem::exists(next.state_output));
}

TEST_F(ReduceStep, AnOptimiserForMixedModelsIsRefused) {
  write("current", {f32("w", {1})});
  write("base", {f32("w", {1})});
  write("update0", {f32("w", {1})});
  ReduceRequest next = request({1});
  next.rebuild_models = true;
  next.step = {.optimizer = ServerOptimizer::adam};
  next.state_output = path("state1");
  const auto result = reduce(next);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("whole models are mixed"));
}

}  // namespace
}  // namespace fedqueue
