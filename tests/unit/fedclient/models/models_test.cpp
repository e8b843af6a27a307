#include <gmock/gmock.h>
#include <torch/script.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "fedclient/models/model.h"
#include "fedclient/models/script.h"
#include "fedclient/trainer/network.h"
#include "fedclient/trainer/trainer.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::int64_t count(const Model& model) {
  std::int64_t sum = 0;
  for (const auto& [name, value] : model.parameters()) sum += value.numel();
  return sum;
}

std::set<std::string> names(const NamedTensors& tensors) {
  std::set<std::string> out;
  for (const auto& [name, value] : tensors) out.insert(name);
  return out;
}

// The counts that torchvision gives for 1,000 classes.
TEST(ResNet, HasTorchvisionsParameters) {
  const auto small = build_model({"resnet18", 1000, {{3, 224, 224}}});
  EXPECT_EQ(count(*small), 11689512);
  EXPECT_TRUE(names(small->parameters()).contains("layer2.0.downsample.0.weight"));
  EXPECT_TRUE(names(small->buffers()).contains("layer4.1.bn2.running_var"));
  const auto large = build_model({"resnet50", 1000, {{3, 224, 224}}});
  EXPECT_EQ(count(*large), 25557032);
  EXPECT_TRUE(names(large->parameters()).contains("layer3.5.conv3.weight"));
}

TEST(ResNet, SmallImagesKeepTheirResolutionAtFirst) {
  const auto model = build_model({"resnet18", 10, {{3, 32, 32}}});
  for (const auto& [name, value] : model->parameters()) {
    if (name == "conv1.weight") {
      EXPECT_EQ(value.size(2), 3);
    }
  }
  EXPECT_EQ(model->forward(torch::zeros({2, 3, 32, 32})).sizes(), (torch::IntArrayRef{2, 10}));
}

NetworkSpec small_gpt() {
  NetworkSpec spec{"gpt", 11, {{6}, true}};
  spec.layers = 2;
  spec.heads = 2;
  spec.width = 8;
  return spec;
}

// Embedding 11·8, positions 6·8; a block has 12·8² weights, 9·8 biases and 4·8 of normalisation;
// the last normalisation 2·8. The output layer is the embedding once more.
TEST(Gpt, SharesTheEmbeddingWithTheOutput) {
  const auto model = build_model(small_gpt());
  EXPECT_EQ(count(*model), 11 * 8 + 6 * 8 + 2 * (12 * 64 + 9 * 8 + 4 * 8) + 2 * 8);
  EXPECT_TRUE(names(model->parameters()).contains("h.1.attn.c_attn.weight"));
  EXPECT_EQ(model->forward(torch::zeros({3, 6}, torch::kLong)).sizes(),
            (torch::IntArrayRef{3, 6, 11}));
}

TEST(Gpt, NoTokenSeesItsFuture) {
  torch::manual_seed(3);
  const auto model = build_model(small_gpt());
  const torch::Tensor tokens = torch::tensor({{1, 2, 3, 4, 5, 6}}, torch::kLong);
  torch::Tensor changed = tokens.clone();
  changed[0][4] = 9;
  const torch::Tensor before = model->forward(tokens), after = model->forward(changed);
  EXPECT_TRUE(torch::equal(before.narrow(1, 0, 4), after.narrow(1, 0, 4)));
  EXPECT_FALSE(torch::allclose(before.narrow(1, 4, 2), after.narrow(1, 4, 2)));
}

class ScriptTest : public ::testing::Test {
 protected:
  ScriptTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fedqueue-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~ScriptTest() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path file() const { return directory_ / "model.pt"; }

  // y = (x·wᵀ + b)·scale, where the scale is frozen and a mask is a constant of the file.
  torch::jit::Module linear(torch::ScalarType type = torch::kFloat) const {
    torch::jit::Module module("Linear");
    module.register_parameter("weight", torch::rand({3, 4}, type).requires_grad_(true), false);
    module.register_parameter("bias", torch::zeros({3}, type).requires_grad_(true), false);
    module.register_parameter("scale", torch::ones({1}, type).requires_grad_(false), false);
    module.register_buffer("steps", torch::zeros({}, torch::kLong));
    module.register_buffer("mask", torch::ones({3}, torch::kBool));
    module.define(
        "def forward(self, x):\n  return (x.matmul(self.weight.t()) + self.bias) * self.scale\n");
    return module;
  }

  Error refused(const InputShape& input = {{4}}) const {
    const Result<NetworkSpec> spec = describe_script(file(), input);
    EXPECT_FALSE(spec);
    return spec ? Error{Code::internal, "accepted", ""} : spec.error();
  }

  std::filesystem::path directory_;
};

TEST_F(ScriptTest, IsDescribedAndListedAsInPython) {
  linear().save(file().string());
  const Result<NetworkSpec> spec = describe_script(file(), {{4}});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->classes, 3);
  EXPECT_EQ(spec->model, kTorchScript);
  const auto again = spec_from_metadata(to_metadata(*spec));
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *spec);
  const auto model = load_script(file(), *spec);
  ASSERT_TRUE(model);
  EXPECT_THAT(names((*model)->parameters()), UnorderedElementsAre("weight", "bias"));
  EXPECT_THAT(names((*model)->buffers()), UnorderedElementsAre("scale", "steps"));
}

// Targets that a linear model can reach; what is frozen stays as it was.
TEST_F(ScriptTest, IsTrainedUnderItsOwnNames) {
  linear().save(file().string());
  ModelInitOptions options;
  options.spec.input = {{4}};
  options.model_file = file();
  const auto made = init_model(options, directory_ / "initial.safetensors");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->parameters, 15);
  NetworkOptions with_file;
  with_file.model_file = file();
  auto network = Network::create(made->spec, with_file);
  ASSERT_TRUE(network);
  Batch batch;
  batch.input = {{4}};
  batch.dtype = tensor::DType::f32;
  batch.samples = 3;
  const std::vector<float> values = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0};
  batch.values.resize(values.size() * sizeof(float));
  std::memcpy(batch.values.data(), values.data(), batch.values.size());
  batch.targets = {2, 0, 1};
  LocalStep step;
  step.learning_rate = 0.5;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE((*network)->accumulate(batch, {.global_batch = 3}));
    ASSERT_TRUE((*network)->apply(step));
  }
  EXPECT_EQ((*network)->evaluate(batch)->correct, 3);
  const tensor::Manifest& layout = (*network)->manifest();
  EXPECT_TRUE(layout.is_buffer("scale"));
  EXPECT_EQ(layout.find("mask"), nullptr);
  std::vector<std::byte> state(layout.data_bytes);
  ASSERT_TRUE((*network)->store(state));
  float scale = 0;
  std::memcpy(&scale, state.data() + layout.find("scale")->begin, sizeof scale);
  EXPECT_EQ(scale, 1);
}

TEST_F(ScriptTest, AnotherFileThanTheRunsIsRefused) {
  linear().save(file().string());
  const Result<NetworkSpec> spec = describe_script(file(), {{4}});
  ASSERT_TRUE(spec);
  linear().save(file().string());  // other weights
  const auto model = load_script(file(), *spec);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::model_mismatch);
  EXPECT_THAT(model.error().message, HasSubstr(spec->file_sha256.substr(0, 12)));
  EXPECT_EQ(load_script("", *spec).error().code, Code::usage);
}

TEST_F(ScriptTest, WhatCannotBeTrainedIsRefusedWithTheReason) {
  std::ofstream(file()) << "a state_dict, perhaps";
  EXPECT_THAT(refused().message, HasSubstr("no TorchScript file"));
  EXPECT_EQ(refused().code, Code::model_format);

  linear(torch::kDouble).save(file().string());
  EXPECT_THAT(refused().message, HasSubstr("Double"));

  torch::jit::Module empty("Empty");
  empty.define("def forward(self, x):\n  return x\n");
  empty.save(file().string());
  EXPECT_THAT(refused().message, HasSubstr("no parameters"));

  linear().save(file().string());
  EXPECT_THAT(refused({{5}}).message, HasSubstr("does not take samples of 5"));
  EXPECT_THAT(refused({{2, 4}}).message, HasSubstr("[2, 2, 3]"));
  std::filesystem::remove(file());
  EXPECT_THAT(refused().message, HasSubstr(file().string()));
}

}  // namespace
}  // namespace fedqueue
