// He et al., "Deep Residual Learning for Image Recognition" (2016), with the stride on the 3×3
// convolution of a bottleneck, and torchvision's parameter names. Images below 64 pixels a side
// begin with a 3×3 convolution instead of the 7×7 one and the pooling, as is usual for CIFAR.
#include <torch/nn.h>

#include <vector>

#include "fedclient/models/model.h"

namespace fedqueue {
namespace {

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::Linear;
using torch::nn::Sequential;

constexpr std::int64_t kSmallSide = 64;

Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  Conv2d made(Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  torch::nn::init::kaiming_normal_(made->weight, 0, torch::kFanOut, torch::kReLU);
  return made;
}

Sequential shortcut(std::int64_t in, std::int64_t out, std::int64_t stride) {
  if (stride == 1 && in == out) return nullptr;
  return Sequential(convolution(in, out, 1, stride), BatchNorm2d(out));
}

// Two 3×3 convolutions.
struct BasicBlockImpl final : torch::nn::Module {
  static constexpr std::int64_t kExpansion = 1;

  BasicBlockImpl(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(register_module("conv1", convolution(in, width, 3, stride))),
        bn1(register_module("bn1", BatchNorm2d(width))),
        conv2(register_module("conv2", convolution(width, width, 3, 1))),
        bn2(register_module("bn2", BatchNorm2d(width))),
        downsample(shortcut(in, width, stride)) {
    if (downsample) register_module("downsample", downsample);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = bn1(conv1(x)).relu_();
    y = bn2(conv2(y));
    return y.add_(downsample ? downsample->forward(x) : x).relu_();
  }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Sequential downsample;
};
TORCH_MODULE(BasicBlock);

// 1×1 to a quarter of the channels, 3×3, 1×1 back.
struct BottleneckImpl final : torch::nn::Module {
  static constexpr std::int64_t kExpansion = 4;

  BottleneckImpl(std::int64_t in, std::int64_t width, std::int64_t stride)
      : conv1(register_module("conv1", convolution(in, width, 1, 1))),
        bn1(register_module("bn1", BatchNorm2d(width))),
        conv2(register_module("conv2", convolution(width, width, 3, stride))),
        bn2(register_module("bn2", BatchNorm2d(width))),
        conv3(register_module("conv3", convolution(width, width * kExpansion, 1, 1))),
        bn3(register_module("bn3", BatchNorm2d(width * kExpansion))),
        downsample(shortcut(in, width * kExpansion, stride)) {
    if (downsample) register_module("downsample", downsample);
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor y = bn1(conv1(x)).relu_();
    y = bn2(conv2(y)).relu_();
    y = bn3(conv3(y));
    return y.add_(downsample ? downsample->forward(x) : x).relu_();
  }

  Conv2d conv1;
  BatchNorm2d bn1;
  Conv2d conv2;
  BatchNorm2d bn2;
  Conv2d conv3;
  BatchNorm2d bn3;
  Sequential downsample;
};
TORCH_MODULE(Bottleneck);

template <typename Block>
struct ResNet final : Architecture {
  ResNet(const NetworkSpec& spec, const std::vector<std::int64_t>& blocks)
      : small(spec.input.sizes[1] < kSmallSide && spec.input.sizes[2] < kSmallSide),
        conv1(register_module("conv1",
                              convolution(spec.input.sizes[0], 64, small ? 3 : 7, small ? 1 : 2))),
        bn1(register_module("bn1", BatchNorm2d(64))) {
    std::int64_t in = 64;
    for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
      const std::int64_t width = std::int64_t{64} << stage;
      Sequential layer;
      for (std::int64_t i = 0; i < blocks[stage]; ++i) {
        layer->push_back(Block(in, width, i == 0 && stage > 0 ? 2 : 1));
        in = width * Block::ContainedType::kExpansion;
      }
      layers.push_back(register_module("layer" + std::to_string(stage + 1), layer));
    }
    fc = register_module("fc", Linear(in, spec.classes));
  }

  torch::Tensor forward(torch::Tensor x) override {
    x = bn1(conv1(x)).relu_();
    if (!small) x = torch::max_pool2d(x, 3, 2, 1);
    for (Sequential& layer : layers) x = layer->forward(x);
    return fc(x.mean({2, 3}));
  }

  bool small;
  Conv2d conv1;
  BatchNorm2d bn1;
  std::vector<Sequential> layers;
  Linear fc{nullptr};
};

}  // namespace

std::shared_ptr<Architecture> make_resnet(const NetworkSpec& spec) {
  const std::vector<std::int64_t> small = {2, 2, 2, 2};
  const std::vector<std::int64_t> large = {3, 4, 6, 3};
  if (spec.model == "resnet18") return std::make_shared<ResNet<BasicBlock>>(spec, small);
  return std::make_shared<ResNet<Bottleneck>>(spec, large);
}

}  // namespace fedqueue
