// A decoder-only transformer in the form of GPT-2: learned positions, normalisation before each
// part, GELU, and an output layer that shares the weights of the embedding.
// Source: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019),
// section 2.3; the parameter names are those of common PyTorch implementations.
#include <torch/nn.h>

#include <cmath>
#include <limits>
#include <vector>

#include "fedclient/models/model.h"

namespace fedqueue {
namespace {

using torch::nn::Embedding;
using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;

constexpr double kInitialDeviation = 0.02;

struct AttentionImpl final : torch::nn::Module {
  AttentionImpl(std::int64_t width, std::int64_t heads_)
      : heads(heads_),
        c_attn(register_module("c_attn", Linear(width, 3 * width))),
        c_proj(register_module("c_proj", Linear(width, width))) {}

  // `mask` is [tokens, tokens]: −∞ where a token would see its future.
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) {
    const std::int64_t n = x.size(0), tokens = x.size(1), width = x.size(2), head = width / heads;
    const torch::Tensor qkv = c_attn(x).view({n, tokens, 3, heads, head}).permute({2, 0, 3, 1, 4});
    const auto part = [&](int i) { return qkv[i].reshape({n * heads, tokens, head}); };
    const double scale = 1 / std::sqrt(static_cast<double>(head));
    const torch::Tensor scores = torch::baddbmm(mask, part(0), part(1).transpose(1, 2), 1, scale);
    const torch::Tensor seen = torch::bmm(scores.softmax(-1), part(2));
    return c_proj(seen.view({n, heads, tokens, head}).transpose(1, 2).reshape({n, tokens, width}));
  }

  std::int64_t heads;
  Linear c_attn, c_proj;
};
TORCH_MODULE(Attention);

struct MlpImpl final : torch::nn::Module {
  explicit MlpImpl(std::int64_t width)
      : c_fc(register_module("c_fc", Linear(width, 4 * width))),
        c_proj(register_module("c_proj", Linear(4 * width, width))) {}

  torch::Tensor forward(const torch::Tensor& x) { return c_proj(torch::gelu(c_fc(x))); }

  Linear c_fc, c_proj;
};
TORCH_MODULE(Mlp);

struct BlockImpl final : torch::nn::Module {
  BlockImpl(std::int64_t width, std::int64_t heads)
      : ln_1(register_module("ln_1", LayerNorm(LayerNormOptions({width})))),
        attn(register_module("attn", Attention(width, heads))),
        ln_2(register_module("ln_2", LayerNorm(LayerNormOptions({width})))),
        mlp(register_module("mlp", Mlp(width))) {}

  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& mask) {
    const torch::Tensor y = x + attn(ln_1(x), mask);
    return y + mlp(ln_2(y));
  }

  LayerNorm ln_1;
  Attention attn;
  LayerNorm ln_2;
  Mlp mlp;
};
TORCH_MODULE(Block);

struct Gpt final : Architecture {
  explicit Gpt(const NetworkSpec& spec)
      : context(spec.input.elements()),
        wte(register_module("wte", Embedding(spec.classes, spec.width))),
        wpe(register_module("wpe", Embedding(context, spec.width))) {
    torch::nn::ModuleList list;
    for (std::int64_t i = 0; i < spec.layers; ++i) {
      blocks.emplace_back(spec.width, spec.heads);
      list->push_back(blocks.back());
    }
    register_module("h", list);
    ln_f = register_module("ln_f", LayerNorm(LayerNormOptions({spec.width})));
    initialise(spec.layers);
  }

  // Projections into the residual stream begin smaller, since `layers` of them add up twice.
  void initialise(std::int64_t layers) {
    const torch::NoGradGuard no_gradient;
    const double residual = kInitialDeviation / std::sqrt(2.0 * static_cast<double>(layers));
    for (auto& item : named_parameters()) {
      torch::Tensor& value = item.value();
      const std::string& name = item.key();
      if (name.ends_with("c_proj.weight")) {
        value.normal_(0, residual);
      } else if (value.dim() >= 2) {
        value.normal_(0, kInitialDeviation);
      } else if (name.ends_with("bias")) {
        value.zero_();
      }
    }
  }

  torch::Tensor forward(torch::Tensor tokens) override {
    const std::int64_t length = tokens.size(1);
    if (!mask.defined() || mask.size(0) != length || mask.device() != wte->weight.device()) {
      const torch::NoGradGuard no_gradient;
      mask = torch::full({length, length}, -std::numeric_limits<float>::infinity(),
                         wte->weight.options().requires_grad(false))
                 .triu_(1);
    }
    torch::Tensor x = wte(tokens) + wpe->weight.narrow(0, 0, length);
    for (Block& block : blocks) x = block(x, mask);
    return torch::linear(ln_f(x), wte->weight);
  }

  std::int64_t context;
  Embedding wte, wpe;
  std::vector<Block> blocks;
  LayerNorm ln_f{nullptr};
  torch::Tensor mask;
};

}  // namespace

std::shared_ptr<Architecture> make_gpt(const NetworkSpec& spec) {
  return std::make_shared<Gpt>(spec);
}

}  // namespace fedqueue
