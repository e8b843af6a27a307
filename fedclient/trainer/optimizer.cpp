#include "fedclient/trainer/optimizer.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

std::vector<float> to_host(const torch::Tensor& values) {
  if (!values.defined()) return {};
  const torch::Tensor host = values.cpu().contiguous();
  const auto* begin = host.data_ptr<float>();
  return {begin, begin + host.numel()};
}

torch::Tensor to_device(const std::vector<float>& values, const torch::TensorOptions& options) {
  if (values.empty()) return {};
  torch::Tensor host = torch::empty({static_cast<std::int64_t>(values.size())}, torch::kFloat);
  std::copy(values.begin(), values.end(), host.data_ptr<float>());
  return host.to(options.device());
}

double inverse_or_zero(double length) { return length > 0 ? 1 / length : 0; }

}  // namespace

struct Optimizer::Impl {
  std::vector<Layer> layers;
  torch::TensorOptions options;
  std::int64_t count = 0;
  torch::Tensor adapting;  // 1 for values of layers that adapt, else 0
  // What is kept between steps. first: velocity, or mean gradient; second: mean squared gradient.
  LocalOptimizer kind = LocalOptimizer::sgd;
  std::int64_t steps = 0;
  torch::Tensor first, second;

  void prepare(LocalOptimizer wanted);
  void sgd(const OptimizerSettings& settings, double rate, torch::Tensor weights,
           torch::Tensor gradient);
  void lars(const OptimizerSettings& settings, double rate, torch::Tensor weights,
            torch::Tensor gradient);
  void adam_moments(const OptimizerSettings& settings, const torch::Tensor& gradient);
  [[nodiscard]] torch::Tensor adam_scale(const OptimizerSettings& settings) const;
  [[nodiscard]] torch::Tensor adam_mean(const OptimizerSettings& settings) const;
  void adamw(const OptimizerSettings& settings, double rate, torch::Tensor weights,
             const torch::Tensor& gradient);
  void lamb(const OptimizerSettings& settings, double rate, torch::Tensor weights,
            const torch::Tensor& gradient);
  void lans(const OptimizerSettings& settings, double rate, torch::Tensor weights,
            torch::Tensor gradient);
  // Calls visit(layer, begin) for each layer in order.
  template <typename Visit>
  void each_layer(Visit&& visit) const {
    std::int64_t begin = 0;
    for (const Layer& layer : layers) {
      visit(layer, begin);
      begin += layer.count;
    }
  }
};

void Optimizer::Impl::prepare(LocalOptimizer wanted) {
  if (wanted != kind) {
    first = torch::Tensor();
    second = torch::Tensor();
    steps = 0;
    kind = wanted;
  }
}

void Optimizer::Impl::sgd(const OptimizerSettings& settings, double rate, torch::Tensor weights,
                          torch::Tensor gradient) {
  if (settings.decay() != 0) gradient.addcmul_(weights, adapting, settings.decay());
  if (settings.momentum != 0) {
    if (!first.defined()) first = torch::zeros({count}, options);
    first.mul_(settings.momentum).add_(gradient);
    if (settings.nesterov) {
      gradient.add_(first, settings.momentum);
    } else {
      gradient = first;
    }
  }
  weights.add_(gradient, -rate);
}

void Optimizer::Impl::lars(const OptimizerSettings& settings, double rate, torch::Tensor weights,
                           torch::Tensor gradient) {
  if (!first.defined()) first = torch::zeros({count}, options);
  const double decay = settings.decay();
  each_layer([&](const Layer& layer, std::int64_t begin) {
    if (!layer.adapts) return;
    const torch::Tensor w = weights.narrow(0, begin, layer.count);
    torch::Tensor g = gradient.narrow(0, begin, layer.count);
    const double weight_length = w.norm().item<double>();
    const double gradient_length = g.norm().item<double>();
    const double local =
        weight_length > 0 && gradient_length > 0
            ? settings.trust_coefficient * weight_length / (gradient_length + decay * weight_length)
            : 1;
    g.add_(w, decay).mul_(local);
  });
  first.mul_(settings.momentum).add_(gradient);
  weights.add_(first, -rate);
}

void Optimizer::Impl::adam_moments(const OptimizerSettings& settings,
                                   const torch::Tensor& gradient) {
  if (!first.defined()) {
    first = torch::zeros({count}, options);
    second = torch::zeros({count}, options);
  }
  ++steps;
  first.mul_(settings.beta1).add_(gradient, 1 - settings.beta1);
  second.mul_(settings.beta2).addcmul_(gradient, gradient, 1 - settings.beta2);
}

// The denominator of Adam's step, √v̂ + ε.
torch::Tensor Optimizer::Impl::adam_scale(const OptimizerSettings& settings) const {
  const double correction = 1 - std::pow(settings.beta2, static_cast<double>(steps));
  return second.sqrt().div_(std::sqrt(correction)).add_(settings.stabilizer());
}

torch::Tensor Optimizer::Impl::adam_mean(const OptimizerSettings& settings) const {
  return first / (1 - std::pow(settings.beta1, static_cast<double>(steps)));
}

void Optimizer::Impl::adamw(const OptimizerSettings& settings, double rate, torch::Tensor weights,
                            const torch::Tensor& gradient) {
  adam_moments(settings, gradient);
  const double correction = 1 - std::pow(settings.beta1, static_cast<double>(steps));
  const torch::Tensor scale = adam_scale(settings);
  if (settings.decay() != 0) weights.addcmul_(weights, adapting, -rate * settings.decay());
  weights.addcdiv_(first, scale, -rate / correction);
}

void Optimizer::Impl::lamb(const OptimizerSettings& settings, double rate, torch::Tensor weights,
                           const torch::Tensor& gradient) {
  adam_moments(settings, gradient);
  torch::Tensor update = adam_mean(settings).div_(adam_scale(settings));
  update.addcmul_(weights, adapting, settings.decay());
  each_layer([&](const Layer& layer, std::int64_t begin) {
    if (!layer.adapts) return;
    torch::Tensor u = update.narrow(0, begin, layer.count);
    const double weight_length = weights.narrow(0, begin, layer.count).norm().item<double>();
    const double update_length = u.norm().item<double>();
    if (weight_length > 0 && update_length > 0) u.mul_(weight_length / update_length);
  });
  weights.add_(update, -rate);
}

void Optimizer::Impl::lans(const OptimizerSettings& settings, double rate, torch::Tensor weights,
                           torch::Tensor gradient) {
  each_layer([&](const Layer& layer, std::int64_t begin) {
    torch::Tensor g = gradient.narrow(0, begin, layer.count);
    g.mul_(inverse_or_zero(g.norm().item<double>()));
  });
  adam_moments(settings, gradient);
  const torch::Tensor scale = adam_scale(settings);
  torch::Tensor mean = adam_mean(settings).div_(scale);
  torch::Tensor present = gradient.div_(scale);
  mean.addcmul_(weights, adapting, settings.decay());
  present.addcmul_(weights, adapting, settings.decay());
  each_layer([&](const Layer& layer, std::int64_t begin) {
    torch::Tensor r = mean.narrow(0, begin, layer.count);
    torch::Tensor c = present.narrow(0, begin, layer.count);
    const double length =
        layer.adapts ? weights.narrow(0, begin, layer.count).norm().item<double>() : 0;
    const bool scaled = length > 0;
    r.mul_(settings.beta1 * (scaled ? length * inverse_or_zero(r.norm().item<double>()) : 1));
    c.mul_((1 - settings.beta1) * (scaled ? length * inverse_or_zero(c.norm().item<double>()) : 1));
  });
  weights.add_(mean.add_(present), -rate);
}

Optimizer::Optimizer(std::vector<Layer> layers, BufferDevice device)
    : impl_(std::make_unique<Impl>()) {
  const torch::Device place =
      device.cuda ? torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(device.ordinal))
                  : torch::Device(torch::kCPU);
  impl_->layers = std::move(layers);
  impl_->options = torch::TensorOptions().dtype(torch::kFloat).device(place);
  for (const Layer& layer : impl_->layers) impl_->count += layer.count;
  impl_->adapting = torch::zeros({impl_->count}, impl_->options);
  impl_->each_layer([&](const Layer& layer, std::int64_t begin) {
    if (layer.adapts) impl_->adapting.narrow(0, begin, layer.count).fill_(1);
  });
}

Optimizer::~Optimizer() = default;
Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer& Optimizer::operator=(Optimizer&&) noexcept = default;

void Optimizer::step(const OptimizerSettings& settings, double learning_rate, float* parameters,
                     float* gradient) {
  const torch::NoGradGuard no_gradient;
  impl_->prepare(settings.kind);
  const torch::Tensor weights = torch::from_blob(parameters, {impl_->count}, impl_->options);
  torch::Tensor change = torch::from_blob(gradient, {impl_->count}, impl_->options);
  if (settings.clip_norm > 0) {
    const double length = change.norm().item<double>();
    if (length > settings.clip_norm) change.mul_(settings.clip_norm / length);
  }
  switch (settings.kind) {
    case LocalOptimizer::sgd:
      return impl_->sgd(settings, learning_rate, weights, change);
    case LocalOptimizer::adamw:
      return impl_->adamw(settings, learning_rate, weights, change);
    case LocalOptimizer::lars:
      return impl_->lars(settings, learning_rate, weights, change);
    case LocalOptimizer::lamb:
      return impl_->lamb(settings, learning_rate, weights, change);
    case LocalOptimizer::lans:
      return impl_->lans(settings, learning_rate, weights, change);
  }
  FEDQUEUE_ASSERT(false);
}

OptimizerState Optimizer::state() const {
  return {impl_->kind, impl_->steps, to_host(impl_->first), to_host(impl_->second)};
}

void Optimizer::set_state(const OptimizerState& state) {
  const auto fits = [&](const std::vector<float>& values) {
    return values.empty() || static_cast<std::int64_t>(values.size()) == impl_->count;
  };
  FEDQUEUE_ASSERT(fits(state.first) && fits(state.second));
  impl_->kind = state.kind;
  impl_->steps = state.steps;
  impl_->first = to_device(state.first, impl_->options);
  impl_->second = to_device(state.second, impl_->options);
}

void Optimizer::reset() {
  impl_->first = torch::Tensor();
  impl_->second = torch::Tensor();
  impl_->steps = 0;
}

}  // namespace fedqueue
