#include "fedclient/trainer/network.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "fixture.h"

namespace fedqueue {
namespace {

std::unique_ptr<Network> make_network(const std::string& model = "mlp",
                                      const NetworkOptions& options = {}) {
  Result<std::unique_ptr<Network>> network = Network::create({model, 4, {{1, 12, 12}}}, options);
  EXPECT_TRUE(network);
  return std::move(*network);
}

std::vector<float> gradients(Network& network) {
  const GradientRange range = network.gradient();
  return {range.data, range.data + range.count};
}

// One tensor out of the packed state.
std::vector<float> values(Network& network, const std::string& name) {
  std::vector<std::byte> state(network.manifest().data_bytes);
  EXPECT_TRUE(network.store(state));
  const tensor::TensorInfo* info = network.manifest().find(name);
  std::vector<float> out(info->elements());
  std::memcpy(out.data(), state.data() + info->begin, info->bytes());
  return out;
}

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = begin; i < end; ++i) out.push_back(i);
  return out;
}

TEST(Network, NamesItsTensorsAsPyTorchDoes) {
  std::vector<std::string> names;
  const auto lenet = make_network("lenet5");
  for (const auto& info : lenet->manifest().tensors) names.push_back(info.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre(
                         "conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight",
                         "fc1.bias", "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"));
  const auto cnn = make_network("cnn");
  EXPECT_EQ(cnn->manifest().find("bn1.num_batches_tracked")->dtype, tensor::DType::i64);
  EXPECT_TRUE(cnn->manifest().is_buffer("bn1.running_var"));
  EXPECT_FALSE(cnn->manifest().is_buffer("bn1.weight"));
}

// Else ranks that share a node's cores have as many threads each as the node has cores.
TEST(Network, TheNumberOfThreadsHoldsForMatrixProductsToo) {
  void* found = ::dlsym(RTLD_DEFAULT, "openblas_get_num_threads");
  if (found == nullptr) GTEST_SKIP() << "this LibTorch does not use OpenBLAS";
  NetworkOptions options;
  options.threads = 1;
  ASSERT_TRUE(Network::create({"mlp", 4, {{1, 12, 12}}}, options));
  EXPECT_EQ(reinterpret_cast<int (*)()>(found)(), 1);
}

TEST(Network, TheSumOfTheShardsGradientsIsTheGradientOfTheBatch) {
  const Dataset dataset = picture_dataset(40);
  for (const char* model : {"mlp", "lenet5"}) {
    auto network = make_network(model);
    ASSERT_TRUE(network->accumulate(gather(dataset, 0, 31), {.global_batch = 31}));
    const std::vector<float> whole = gradients(*network);
    std::vector<float> sum(whole.size(), 0);
    // Unequal shards, one of them empty.
    for (const auto& shard : {range(0, 17), range(17, 31), range(31, 31)}) {
      ASSERT_TRUE(network->accumulate(gather(dataset, shard), {.global_batch = 31}));
      const std::vector<float> part = gradients(*network);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    }
    for (std::size_t i = 0; i < sum.size(); ++i) ASSERT_NEAR(sum[i], whole[i], 1e-6);
  }
}

// What accumulate() hands out, as it was then.
struct HandedOut {
  std::vector<std::ptrdiff_t> begins;  // relative to the gradient; negative where the head is
  std::vector<std::vector<float>> values;
};

BeginSum hand_out_to(HandedOut& out, Network& network) {
  return [&](const GradientRange& range) -> Status {
    out.begins.push_back(range.data - network.gradient().data);
    out.values.emplace_back(range.data, range.data + range.count);
    return {};
  };
}

TEST(Network, GradientsAreHandedOutFromTheLastToTheFirstWhileTheBackwardPassGoesOn) {
  const Dataset dataset = picture_dataset(16);
  NetworkOptions options;
  options.bucket_bytes = 1024;
  for (const char* model : {"mlp", "lenet5", "cnn"}) {
    auto network = make_network(model, options);
    HandedOut out;
    const BeginSum hand_out = hand_out_to(out, *network);
    const auto first = static_cast<std::size_t>(network->ranges().front().count);
    bool first_parameter_waits = false;
    ASSERT_TRUE(network->accumulate(
        gather(dataset, 0, 16), {.global_batch = 16}, [&](const GradientRange& range) {
          const float* gradient = network->gradient().data;
          if (out.begins.empty())
            first_parameter_waits =
                std::all_of(gradient, gradient + first, [](float value) { return value == 0; });
          return hand_out(range);
        }));
    EXPECT_TRUE(first_parameter_waits) << model;
    EXPECT_GT(out.begins.size(), 2u) << model;
    EXPECT_LT(out.begins.back(), 0) << "the head comes last";
    const std::vector<float> whole = gradients(*network);
    std::ptrdiff_t end = network->parameters();
    for (std::size_t i = 0; i < out.begins.size(); ++i) {
      ASSERT_EQ(out.begins[i] + static_cast<std::ptrdiff_t>(out.values[i].size()), end);
      end = out.begins[i];
      for (std::size_t k = 0; k < out.values[i].size(); ++k) {
        const std::ptrdiff_t at = out.begins[i] + static_cast<std::ptrdiff_t>(k);
        if (at >= 0) {
          ASSERT_EQ(out.values[i][k], whole[static_cast<std::size_t>(at)]) << model;
        }
      }
    }
    HandedOut nothing;
    ASSERT_TRUE(network->accumulate(gather(dataset, 0, 0), {.global_batch = 16},
                                    hand_out_to(nothing, *network)));
    EXPECT_EQ(nothing.begins, out.begins) << "a rank without samples takes part";
  }
}

TEST(Network, ASmallModelIsOneRange) {
  auto network = make_network("lenet5");
  HandedOut out;
  ASSERT_TRUE(network->accumulate(gather(picture_dataset(4), 0, 4), {.global_batch = 4},
                                  hand_out_to(out, *network)));
  EXPECT_EQ(out.begins.size(), 1u);
}

TEST(Network, ASumThatCannotBeginEndsThePass) {
  NetworkOptions options;
  options.bucket_bytes = 1024;
  auto network = make_network("lenet5", options);
  int attempts = 0;
  const Status status = network->accumulate(gather(picture_dataset(4), 0, 4), {.global_batch = 4},
                                            [&](const GradientRange&) -> Status {
                                              ++attempts;
                                              return Error{Code::rank_lost, "rank 1 is gone", ""};
                                            });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::rank_lost);
  EXPECT_EQ(attempts, 1);
}

// 31 = 4 × 7 + 3; each range is handed out once, when the last part has been added.
TEST(Network, MicroBatchesAddUpToTheBatch) {
  const Dataset dataset = picture_dataset(31);
  NetworkOptions options;
  options.bucket_bytes = 1024;
  for (const char* model : {"mlp", "lenet5"}) {
    auto network = make_network(model, options);
    Pass pass{.global_batch = 40, .keep_losses = true, .measured_ranks = 2};
    HandedOut at_once;
    ASSERT_TRUE(network->accumulate(gather(dataset, 0, 31), pass, hand_out_to(at_once, *network)));
    const BatchTotals whole_totals = *network->totals();
    const GradientSquares whole_squares = *network->squares();
    const std::vector<float> whole_losses = *network->sample_losses();
    pass.micro_batch = 7;
    HandedOut in_parts;
    ASSERT_TRUE(network->accumulate(gather(dataset, 0, 31), pass, hand_out_to(in_parts, *network)));
    EXPECT_EQ(in_parts.begins, at_once.begins);
    for (std::size_t i = 0; i < at_once.values.size(); ++i)
      EXPECT_THAT(in_parts.values[i],
                  ::testing::Pointwise(::testing::FloatNear(1e-6f), at_once.values[i]));
    EXPECT_NEAR(network->totals()->loss_mean, whole_totals.loss_mean, 1e-6);
    EXPECT_EQ(network->totals()->samples, 31);
    EXPECT_NEAR(network->squares()->rank_mean / whole_squares.rank_mean, 1, 1e-4);
    EXPECT_THAT(*network->sample_losses(),
                ::testing::Pointwise(::testing::FloatNear(1e-5f), whole_losses));
  }
}

TEST(Network, LossSamplesAndTheWishToStopTravelWithTheGradients) {
  const Dataset dataset = picture_dataset(8);
  auto network = make_network();
  ASSERT_TRUE(network->accumulate(gather(dataset, 0, 8), {.global_batch = 8}));
  Result<BatchTotals> totals = network->totals();
  ASSERT_TRUE(totals);
  EXPECT_NEAR(totals->loss_mean, std::log(4.0), 0.3);  // untrained: as good as guessing
  EXPECT_EQ(totals->samples, 8);
  EXPECT_FALSE(totals->stop);
  ASSERT_TRUE(
      network->accumulate(gather(dataset, 0, 8), {.global_batch = 8, .wish_to_stop = true}));
  EXPECT_TRUE(network->totals()->stop);
}

// v ← m·v + g + decay·w;  w ← w − lr·v, as PyTorch's SGD; the biases do not decay.
TEST(Network, StepsAreSgdWithMomentumAndWeightDecay) {
  const Dataset dataset = picture_dataset(16);
  auto network = make_network();
  LocalStep sgd;
  sgd.learning_rate = 0.1;
  sgd.optimizer.weight_decay = 0.01;
  // The gradient of fc1.bias is read back from the flat buffer by taking plain steps first.
  std::vector<double> weight, bias, weight_velocity(128 * 144, 0), bias_velocity(128, 0);
  const auto as_double = [](const std::vector<float>& in) {
    return std::vector<double>(in.begin(), in.end());
  };
  weight = as_double(values(*network, "fc1.weight"));
  bias = as_double(values(*network, "fc1.bias"));
  for (int step = 0; step < 4; ++step) {
    ASSERT_TRUE(network->accumulate(gather(dataset, 0, 16), {.global_batch = 16}));
    const std::vector<float> gradient = gradients(*network);  // fc1.weight, fc1.bias come first
    ASSERT_TRUE(network->apply(sgd));
    for (std::size_t i = 0; i < weight.size(); ++i) {
      weight_velocity[i] = 0.9 * weight_velocity[i] + gradient[i] + 0.01 * weight[i];
      weight[i] -= 0.1 * weight_velocity[i];
    }
    for (std::size_t i = 0; i < bias.size(); ++i) {
      bias_velocity[i] = 0.9 * bias_velocity[i] + gradient[weight.size() + i];
      bias[i] -= 0.1 * bias_velocity[i];
    }
  }
  const std::vector<float> weight_got = values(*network, "fc1.weight");
  const std::vector<float> bias_got = values(*network, "fc1.bias");
  for (std::size_t i = 0; i < weight.size(); ++i) ASSERT_NEAR(weight_got[i], weight[i], 1e-6);
  for (std::size_t i = 0; i < bias.size(); ++i) ASSERT_NEAR(bias_got[i], bias[i], 1e-6);
}

TEST(Network, MeasuresTheGradientOfARankAndOfAll) {
  const Dataset dataset = picture_dataset(16);
  auto network = make_network();
  // This rank has 4 of 8 samples, and is one of two: the sum over the ranks is twice its share.
  ASSERT_TRUE(network->accumulate(gather(dataset, 0, 4), {.global_batch = 8, .measured_ranks = 2}));
  double squares = 0;
  const std::vector<float> gradient = gradients(*network);
  for (std::int64_t i = 0; i < network->parameters(); ++i)
    squares += static_cast<double>(gradient[static_cast<std::size_t>(i)]) *
               gradient[static_cast<std::size_t>(i)];
  const auto measured = network->squares();
  ASSERT_TRUE(measured);
  EXPECT_NEAR(measured->rank_mean / (4 * squares / 2), 1, 1e-4) << "the mean over its own samples";
  EXPECT_NEAR(measured->global / squares, 1, 1e-4);
}

// A stream that repeats itself is predicted without an error after its first tokens.
TEST(Network, ALanguageModelLearnsAStream) {
  std::vector<std::uint16_t> tokens;
  for (int i = 0; i < 33; ++i) tokens.push_back(static_cast<std::uint16_t>(i % 5));
  Dataset stream;
  stream.input = {{8}, true};
  stream.dtype = tensor::DType::u16;
  stream.classes = 5;
  stream.values = std::as_bytes(std::span(tokens));
  NetworkSpec spec{"gpt", 5, stream.input};
  spec.layers = 1;
  spec.heads = 2;
  spec.width = 16;
  auto network = Network::create(spec, {});
  ASSERT_TRUE(network) << network.error().message;
  LocalStep step;
  step.learning_rate = 0.01;
  step.optimizer.kind = LocalOptimizer::adamw;
  const Batch batch = gather(stream, 0, stream.samples());
  ASSERT_TRUE((*network)->accumulate(batch, {.global_batch = batch.samples}));
  EXPECT_NEAR((*network)->totals()->loss_mean, std::log(5.0), 0.1) << "a mean over all tokens";
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE((*network)->accumulate(batch, {.global_batch = batch.samples}));
    ASSERT_TRUE((*network)->apply(step));
  }
  const auto totals = (*network)->evaluate(batch);
  ASSERT_TRUE(totals);
  EXPECT_EQ(totals->targets, 32);
  EXPECT_EQ(totals->correct, 32);
}

// Along the way of one step of plain SGD at rate 1 the slope begins at −|g|², and a step of length
// a is one of rate a.
TEST(Network, LooksAlongTheLineOfAStep) {
  const auto network = make_network("mlp");
  const Dataset data = picture_dataset(16);
  const auto fresh = [&] {
    std::vector<std::byte> state(network->manifest().data_bytes);
    EXPECT_TRUE(network->store(state));
    return state;
  };
  const std::vector<std::byte> start = fresh();
  LocalStep plain;
  plain.optimizer.momentum = 0;
  plain.learning_rate = 0.25;
  ASSERT_TRUE(network->accumulate(gather(data, 0, 16), {.global_batch = 16}));
  ASSERT_TRUE(network->apply(plain));
  const std::vector<std::byte> stepped = fresh();
  ASSERT_TRUE(network->load(start));

  ASSERT_TRUE(network->accumulate(gather(data, 0, 16), {.global_batch = 16, .measured_ranks = 1}));
  const Result<GradientSquares> squares = network->squares();
  ASSERT_TRUE(squares);
  plain.learning_rate = 1;
  const Result<double> slope = network->begin_line(plain);
  ASSERT_TRUE(slope);
  EXPECT_NEAR(*slope, -squares->global, 1e-4 * squares->global);
  ASSERT_TRUE(network->move_along(0.25));
  const std::vector<std::byte> moved = fresh();
  double apart = 0;
  for (std::size_t at = 0; at < moved.size(); at += sizeof(float)) {
    float a = 0;
    float b = 0;
    std::memcpy(&a, moved.data() + at, sizeof a);
    std::memcpy(&b, stepped.data() + at, sizeof b);
    apart = std::max(apart, std::abs(static_cast<double>(a) - static_cast<double>(b)));
  }
  EXPECT_LT(apart, 1e-6);
  ASSERT_TRUE(network->move_along(0));
  EXPECT_EQ(fresh(), start);
  ASSERT_TRUE(network->accumulate(gather(data, 0, 16), {.global_batch = 16}));
  EXPECT_NEAR(*network->slope(), *slope, 1e-6 * std::abs(*slope));
}

TEST(Network, EvaluationChangesNothing) {
  const Dataset dataset = picture_dataset(20);
  auto network = make_network("cnn");
  const std::vector<float> before = values(*network, "bn1.running_mean");
  Result<EvaluationTotals> totals = network->evaluate(gather(dataset, 0, 20));
  ASSERT_TRUE(totals);
  EXPECT_EQ(totals->targets, 20);
  EXPECT_EQ(values(*network, "bn1.running_mean"), before);
}

TEST(Network, AnUnknownModelNamesTheNearest) {
  const auto network = Network::create({"lenet", 10}, {});
  ASSERT_FALSE(network);
  EXPECT_EQ(network.error().code, Code::usage);
  EXPECT_THAT(network.error().cure, ::testing::HasSubstr("lenet5"));
}

TEST(Network, AMissingGpuIsADeviceError) {
  NetworkOptions options;
  options.device = "cuda";
  const auto network = Network::create({"mlp", 4, {{1, 12, 12}}}, options);
  if (network) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(network.error().code, Code::device);
}

}  // namespace
}  // namespace fedqueue
