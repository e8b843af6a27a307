#include <torch/nn.h>

#include <set>

#include "core/base/assert.h"
#include "fedclient/models/model.h"

namespace fedqueue {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Linear;

// Three fully connected layers: values → 128 → 64 → classes.
struct Mlp final : Architecture {
  explicit Mlp(const NetworkSpec& spec)
      : fc1(register_module("fc1", Linear(spec.input.elements(), 128))),
        fc2(register_module("fc2", Linear(128, 64))),
        fc3(register_module("fc3", Linear(64, spec.classes))) {}

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::relu(fc1(x.flatten(1)));
    return fc3(torch::relu(fc2(x)));
  }
  Linear fc1, fc2, fc3;
};

// LeCun et al., "Gradient-Based Learning Applied to Document Recognition" (1998), with ReLU and
// maximum pooling, as it is written today.
struct LeNet5 final : Architecture {
  explicit LeNet5(const NetworkSpec& spec)
      : conv1(
            register_module("conv1", Conv2d(Conv2dOptions(spec.input.sizes[0], 6, 5).padding(2)))),
        conv2(register_module("conv2", Conv2d(Conv2dOptions(6, 16, 5)))),
        fc1(register_module(
            "fc1", Linear(16 * side(spec.input.sizes[1]) * side(spec.input.sizes[2]), 120))),
        fc2(register_module("fc2", Linear(120, 84))),
        fc3(register_module("fc3", Linear(84, spec.classes))) {}

  static std::int64_t side(std::int64_t pixels) { return (pixels / 2 - 4) / 2; }

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::max_pool2d(torch::relu(conv1(x)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = torch::relu(fc1(x.flatten(1)));
    return fc3(torch::relu(fc2(x)));
  }
  Conv2d conv1, conv2;
  Linear fc1, fc2, fc3;
};

// 32–64–128 channels with batch normalisation: the model that has buffers.
struct Cnn final : Architecture {
  explicit Cnn(const NetworkSpec& spec)
      : conv1(
            register_module("conv1", Conv2d(Conv2dOptions(spec.input.sizes[0], 32, 3).padding(1)))),
        bn1(register_module("bn1", BatchNorm2d(32))),
        conv2(register_module("conv2", Conv2d(Conv2dOptions(32, 64, 3).padding(1)))),
        bn2(register_module("bn2", BatchNorm2d(64))),
        conv3(register_module("conv3", Conv2d(Conv2dOptions(64, 128, 3).padding(1)))),
        bn3(register_module("bn3", BatchNorm2d(128))),
        fc(register_module("fc", Linear(128, spec.classes))) {}

  torch::Tensor forward(torch::Tensor x) override {
    x = torch::max_pool2d(torch::relu(bn1(conv1(x))), 2);
    x = torch::max_pool2d(torch::relu(bn2(conv2(x))), 2);
    x = torch::relu(bn3(conv3(x)));
    return fc(x.mean({2, 3}));
  }
  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;
  BatchNorm2d bn3;
  Linear fc;
};

std::shared_ptr<Architecture> make(const NetworkSpec& spec) {
  if (spec.model == "mlp") return std::make_shared<Mlp>(spec);
  if (spec.model == "lenet5") return std::make_shared<LeNet5>(spec);
  if (spec.model == "cnn") return std::make_shared<Cnn>(spec);
  if (spec.model == "gpt") return make_gpt(spec);
  return make_resnet(spec);
}

class BuiltIn final : public Model {
 public:
  explicit BuiltIn(std::shared_ptr<Architecture> module) : module_(std::move(module)) {}

  torch::Tensor forward(const torch::Tensor& inputs) override { return module_->forward(inputs); }
  NamedTensors parameters() const override {
    NamedTensors out;
    std::set<const void*> seen;  // tied weights have several names
    for (const auto& item : module_->named_parameters()) {
      if (seen.insert(item.value().unsafeGetTensorImpl()).second)
        out.emplace_back(item.key(), item.value());
    }
    return out;
  }
  NamedTensors buffers() const override {
    NamedTensors out;
    for (const auto& item : module_->named_buffers()) out.emplace_back(item.key(), item.value());
    return out;
  }
  void train(bool on) override { module_->train(on); }
  void to(torch::Device device) override { module_->to(device); }

 private:
  std::shared_ptr<Architecture> module_;
};

}  // namespace

std::unique_ptr<Model> build_model(const NetworkSpec& spec) {
  FEDQUEUE_ASSERT(spec.model != kTorchScript);
  return std::make_unique<BuiltIn>(make(spec));
}

}  // namespace fedqueue
