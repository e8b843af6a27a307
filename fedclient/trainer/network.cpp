#include "fedclient/trainer/network.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "core/tensor/control.h"
#include "fedclient/models/model.h"
#include "fedclient/trainer/gradient_buckets.h"

namespace fedqueue {
namespace {

// In front of the gradients, which it leaves aligned to a cache line.
constexpr std::int64_t kHead = 16;
constexpr std::int64_t kLoss = 0;  // sum / global batch
constexpr std::int64_t kSamples = 1;
constexpr std::int64_t kWishToStop = 2;
constexpr std::int64_t kSquares = 3;  // squared length of a rank's gradient / ranks

constexpr std::int64_t kBucketBytes = std::int64_t{1} << 20;
constexpr std::int64_t kBucketBytesOnGpu = std::int64_t{25} << 20;

// The first line alone: what follows is a stack trace of LibTorch's own.
Error torch_error(const std::string& attempted, const std::exception& exception) {
  std::string text = exception.what();
  text = text.substr(0, text.find('\n'));
  if (text.find("allocate memory") != std::string::npos ||
      text.find("out of memory") != std::string::npos ||
      dynamic_cast<const std::bad_alloc*>(&exception)) {
    return {Code::memory, attempted + ": there is not enough memory", ""};
  }
  const bool device = text.find("CUDA") != std::string::npos;
  return {device ? Code::device : Code::internal, attempted + ": LibTorch says: " + text,
          device ? "Check the GPU with nvidia-smi, or train with --device cpu." : ""};
}

// What a step needs grows with the samples of a pass.
Error with_size(Error error, std::int64_t samples) {
  if (error.code != Code::memory) return error;
  error.message += " for " + std::to_string(samples) + " samples at a time";
  error.cure = "Try " + std::to_string(std::max<std::int64_t>(1, samples / 2)) +
               " with micro_batch, use more ranks, or ask for more memory.";
  return error;
}

// LibTorch's own loops and, where it multiplies matrices with OpenBLAS, that library's threads too:
// it does not follow LibTorch's number, and its threads yield in a loop while they wait, which
// costs several times the work itself where ranks share cores.
void set_threads(int count) {
  at::set_num_threads(count);
  using SetThreads = void (*)(int);
  if (void* found = ::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))
    reinterpret_cast<SetThreads>(found)(count);
}

template <typename Body>
auto guarded(const char* attempted, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& exception) {
    return torch_error(attempted, exception);
  }
}

// Samples [begin, end).
Batch part_of(const Batch& batch, std::int64_t begin, std::int64_t end) {
  const auto cut = [&](const auto& of_all) {
    const std::ptrdiff_t each = static_cast<std::ptrdiff_t>(of_all.size()) / batch.samples;
    return std::decay_t<decltype(of_all)>(of_all.begin() + begin * each,
                                          of_all.begin() + end * each);
  };
  return {batch.input, batch.dtype, end - begin, cut(batch.values), cut(batch.targets)};
}

tensor::DType dtype_of(const torch::Tensor& value) {
  if (value.scalar_type() == torch::kLong) return tensor::DType::i64;
  FEDQUEUE_ASSERT(value.scalar_type() == torch::kFloat);
  return tensor::DType::f32;
}

}  // namespace

struct Network::Impl {
  NetworkSpec spec;
  torch::Device device = torch::kCPU;
  std::unique_ptr<Model> model;
  std::map<std::string, torch::Tensor> named;  // parameters and buffers, living in the model
  tensor::Manifest manifest;
  torch::Tensor parameters, gradients, anchor, correction;
  torch::Tensor reduction;  // the head, then `gradients`
  torch::Tensor line_start, line;
  torch::Tensor sample_losses;  // one for each of the last batch
  std::optional<Optimizer> optimizer;
  std::vector<ParameterRange> ranges;
  std::optional<GradientBuckets> buckets;
  std::int64_t count = 0;  // parameters

  void flatten(std::int64_t bucket_bytes);
  [[nodiscard]] GradientBuckets::Complete measured(const Pass& pass, std::int64_t samples,
                                                   const BeginSum& begin_sum);
  torch::Tensor backward(const Batch& batch, const Pass& pass);
  Status describe();
  [[nodiscard]] torch::Tensor inputs(const Batch& batch) const;
  [[nodiscard]] torch::Tensor targets(const Batch& batch) const;
  [[nodiscard]] torch::Tensor loss_sum(const torch::Tensor& scores, const Batch& batch) const;
  [[nodiscard]] torch::Tensor losses_of(const torch::Tensor& scores, const Batch& batch) const;
  [[nodiscard]] bool takes(const Batch& batch) const {
    return batch.input == spec.input && batch.samples >= 0;
  }
};

// Moves every parameter and its gradient into views of two flat buffers. Backward accumulates into
// gradients that exist, so the views stay views.
void Network::Impl::flatten(std::int64_t bucket_bytes) {
  const NamedTensors all = model->parameters();
  count = 0;
  for (const auto& [name, value] : all) count += value.numel();
  const auto options = torch::TensorOptions().dtype(torch::kFloat).device(device);
  parameters = torch::empty({count}, options);
  reduction = torch::zeros({kHead + count}, options);
  gradients = reduction.narrow(0, kHead, count);
  std::vector<Layer> layers;
  std::vector<torch::Tensor> flat;
  std::int64_t offset = 0;
  for (const auto& [name, value] : all) {
    torch::Tensor parameter = value;
    const std::int64_t length = parameter.numel();
    const torch::NoGradGuard no_gradient;
    torch::Tensor place = parameters.narrow(0, offset, length).view(parameter.sizes());
    place.copy_(parameter);
    parameter.set_data(place);
    parameter.mutable_grad() = gradients.narrow(0, offset, length).view(parameter.sizes());
    flat.push_back(parameter);
    layers.push_back({length, parameter.dim() >= 2});
    ranges.push_back({name, parameter.sizes().vec(), offset, length});
    offset += length;
  }
  optimizer.emplace(std::move(layers), BufferDevice{device.is_cuda(), device.index()});
  if (bucket_bytes == 0) bucket_bytes = device.is_cuda() ? kBucketBytesOnGpu : kBucketBytes;
  buckets.emplace(flat, kHead, bucket_bytes / static_cast<std::int64_t>(sizeof(float)));
}

Status Network::Impl::describe() {
  std::vector<tensor::TensorInfo> infos;
  std::vector<std::string> buffers;
  const auto add = [&](const std::string& name, const torch::Tensor& value) {
    tensor::TensorInfo info;
    info.name = name;
    info.dtype = dtype_of(value);
    info.shape = value.sizes().vec();
    infos.push_back(std::move(info));
    named.emplace(name, value);
  };
  for (const auto& [name, value] : model->parameters()) add(name, value);
  for (const auto& [name, value] : model->buffers()) {
    add(name, value);
    if (value.is_floating_point()) buffers.push_back(name);
  }
  Result<tensor::Manifest> laid_out = tensor::lay_out(std::move(infos), to_metadata(spec));
  if (!laid_out) return laid_out.error();
  manifest = std::move(*laid_out);
  manifest.set_buffers(buffers);
  return {};
}

torch::Tensor Network::Impl::inputs(const Batch& batch) const {
  const torch::ScalarType type = batch.dtype == tensor::DType::u8    ? torch::kByte
                                 : batch.dtype == tensor::DType::i64 ? torch::kLong
                                                                     : torch::kFloat;
  std::vector<std::int64_t> sizes = batch.input.sizes;
  sizes.insert(sizes.begin(), batch.samples);
  // Read only; a copy is made on the way to the device or to floats.
  torch::Tensor values =
      torch::from_blob(const_cast<std::byte*>(batch.values.data()), sizes, torch::dtype(type))
          .to(device);
  // A fixed scale, the same at every facility: bytes become −1 … 1.
  if (type == torch::kByte) return values.to(torch::kFloat).mul_(2.0 / 255).sub_(1);
  return values;
}

torch::Tensor Network::Impl::targets(const Batch& batch) const {
  return torch::from_blob(const_cast<std::int64_t*>(batch.targets.data()),
                          {static_cast<std::int64_t>(batch.targets.size())},
                          torch::dtype(torch::kLong))
      .to(device);
}

// Of tokens the scores are [samples, tokens, words].
torch::Tensor Network::Impl::loss_sum(const torch::Tensor& scores, const Batch& batch) const {
  return torch::nn::functional::cross_entropy(
      scores.reshape({-1, scores.size(-1)}), targets(batch),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

torch::Tensor Network::Impl::losses_of(const torch::Tensor& scores, const Batch& batch) const {
  return torch::nn::functional::cross_entropy(
             scores.reshape({-1, scores.size(-1)}), targets(batch),
             torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kNone))
      .reshape({batch.samples, -1})
      .mean(1);
}

Network::Network(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Network::~Network() = default;

Result<std::unique_ptr<Network>> Network::create(const NetworkSpec& spec,
                                                 const NetworkOptions& options) {
  if (Status status = check_spec(spec); !status) return status.error();
  if (options.device != "cpu" && options.device != "cuda") {
    return Error{Code::usage, "choose a device: '" + options.device + "' is not known",
                 "Use --device cpu or --device cuda."};
  }
  if (options.device == "cuda" && !at::hasCUDA()) {
    return Error{Code::device, "choose a device: this LibTorch has no CUDA, or there is no GPU",
                 "Use --device cpu, or build with a LibTorch for CUDA."};
  }
  return guarded("build the model", [&]() -> Result<std::unique_ptr<Network>> {
    auto impl = std::make_unique<Impl>();
    impl->spec = spec;
    if (options.threads > 0) set_threads(options.threads);
    at::globalContext().setDeterministicAlgorithms(options.deterministic, false);
    if (options.device == "cuda") {
      impl->device =
          torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(options.gpu_ordinal));
    }
    torch::manual_seed(options.seed);
    if (spec.model == kTorchScript) {
      Result<std::unique_ptr<Model>> loaded = load_script(options.model_file, spec);
      if (!loaded) return loaded.error();
      impl->model = std::move(*loaded);
    } else {
      impl->model = build_model(spec);
    }
    impl->model->to(impl->device);
    impl->flatten(options.bucket_bytes);
    if (Status status = impl->describe(); !status) return status.error();
    return std::unique_ptr<Network>(new Network(std::move(impl)));
  });
}

const NetworkSpec& Network::spec() const { return impl_->spec; }
const tensor::Manifest& Network::manifest() const { return impl_->manifest; }
std::int64_t Network::parameters() const { return impl_->count; }
const std::vector<ParameterRange>& Network::ranges() const { return impl_->ranges; }

Status Network::load(std::span<const std::byte> bytes) {
  FEDQUEUE_ASSERT(bytes.size() == impl_->manifest.data_bytes);
  return guarded("load the model", [&]() -> Status {
    const torch::NoGradGuard no_gradient;
    for (const tensor::TensorInfo& info : impl_->manifest.tensors) {
      torch::Tensor target = impl_->named.at(info.name);
      torch::Tensor host = torch::empty(target.sizes(), target.scalar_type());
      std::memcpy(host.data_ptr(), bytes.data() + info.begin, info.bytes());
      target.copy_(host);
    }
    return {};
  });
}

Status Network::store(std::span<std::byte> bytes) const {
  FEDQUEUE_ASSERT(bytes.size() == impl_->manifest.data_bytes);
  return guarded("copy the model", [&]() -> Status {
    const torch::NoGradGuard no_gradient;
    for (const tensor::TensorInfo& info : impl_->manifest.tensors) {
      const torch::Tensor host = impl_->named.at(info.name).detach().cpu().contiguous();
      std::memcpy(bytes.data() + info.begin, host.data_ptr(), info.bytes());
    }
    return {};
  });
}

void Network::reset_optimizer() { impl_->optimizer->reset(); }

Result<OptimizerState> Network::optimizer_state() const {
  return guarded("copy the optimiser's state",
                 [&]() -> Result<OptimizerState> { return impl_->optimizer->state(); });
}

Status Network::set_optimizer_state(const OptimizerState& state) {
  return guarded("load the optimiser's state", [&]() -> Status {
    impl_->optimizer->set_state(state);
    return {};
  });
}

void Network::set_anchor() { impl_->anchor = impl_->parameters.clone(); }

Status Network::set_correction(const tensor::Manifest& layout, std::span<const float> values) {
  return guarded("take over control variates", [&]() -> Status {
    const auto index = layout.index();
    torch::Tensor host = torch::zeros({impl_->count}, torch::kFloat);
    auto* out = host.data_ptr<float>();
    for (const ParameterRange& range : impl_->ranges) {
      const tensor::TensorInfo& info = layout.tensors[index.at(tensor::control_name(range.name))];
      std::memcpy(out, values.data() + info.begin / sizeof(float), info.bytes());
      out += info.elements();
    }
    impl_->correction = host.to(impl_->device);
    return {};
  });
}

// Begins the sum of each range, once what must be known of it before has been added up.
GradientBuckets::Complete Network::Impl::measured(const Pass& pass, std::int64_t samples,
                                                  const BeginSum& begin_sum) {
  // The gradient is divided by the samples of the global batch; a rank's mean is over its own.
  const double scale =
      pass.measured_ranks == 0 || samples == 0
          ? 0
          : std::pow(static_cast<double>(pass.global_batch) / static_cast<double>(samples), 2) /
                pass.measured_ranks;
  return [this, scale, &begin_sum](std::int64_t begin, std::int64_t length) -> Status {
    if (scale != 0) {
      const torch::NoGradGuard no_gradient;
      const std::int64_t first = std::max(begin, kHead);
      const torch::Tensor part = reduction.narrow(0, first, begin + length - first);
      reduction[kSquares].add_(part.square().sum(), scale);
    }
    if (!begin_sum) return {};
    return begin_sum(
        {reduction.data_ptr<float>() + begin, static_cast<std::size_t>(length), device.is_cuda()});
  };
}

// Returns the batch's share of the loss.
torch::Tensor Network::Impl::backward(const Batch& batch, const Pass& pass) {
  const torch::Tensor scores = model->forward(inputs(batch));
  const std::int64_t targets_each = static_cast<std::int64_t>(batch.targets.size()) / batch.samples;
  const torch::Tensor loss =
      loss_sum(scores, batch)
          .div(static_cast<double>(pass.global_batch) * static_cast<double>(targets_each));
  loss.backward();
  if (pass.keep_losses)
    sample_losses = torch::cat({sample_losses, losses_of(scores.detach(), batch)});
  return loss.detach();
}

Status Network::accumulate(const Batch& batch, const Pass& pass, const BeginSum& begin_sum) {
  FEDQUEUE_ASSERT(impl_->takes(batch) && pass.global_batch > 0 && pass.micro_batch >= 0);
  const std::int64_t most = pass.micro_batch == 0 ? batch.samples : pass.micro_batch;
  const Status computed = guarded("compute gradients", [&]() -> Status {
    impl_->model->train(true);
    impl_->reduction.zero_();
    impl_->sample_losses = torch::empty({0}, impl_->reduction.options());
    const auto head = [&](std::int64_t at) { return impl_->reduction[at]; };
    head(kSamples).fill_(static_cast<double>(batch.samples));
    if (pass.wish_to_stop) head(kWishToStop).fill_(1);
    const auto begin = impl_->measured(pass, batch.samples, begin_sum);
    impl_->buckets->start({});
    for (std::int64_t done = 0; done < batch.samples; done += most) {
      const std::int64_t end = std::min(done + most, batch.samples);
      if (end == batch.samples) impl_->buckets->start(begin);
      const bool whole = done == 0 && end == batch.samples;
      const torch::Tensor loss =
          whole ? impl_->backward(batch, pass) : impl_->backward(part_of(batch, done, end), pass);
      const torch::NoGradGuard no_gradient;
      head(kLoss).add_(loss);
    }
    if (batch.samples == 0) impl_->buckets->start(begin);
    return impl_->buckets->finish();
  });
  return computed ? computed : Status(with_size(computed.error(), std::min(most, batch.samples)));
}

Result<std::vector<float>> Network::sample_losses() {
  return guarded("read the losses of samples", [&]() -> Result<std::vector<float>> {
    const torch::Tensor host = impl_->sample_losses.cpu().contiguous();
    const auto* begin = host.data_ptr<float>();
    return std::vector<float>(begin, begin + host.numel());
  });
}

Result<GradientSquares> Network::squares() {
  return guarded("measure gradients", [&]() -> Result<GradientSquares> {
    const torch::NoGradGuard no_gradient;
    GradientSquares squares;
    squares.rank_mean = impl_->reduction[kSquares].item<double>();
    squares.global = impl_->gradients.square().sum().item<double>();
    return squares;
  });
}

GradientRange Network::gradient() {
  return {impl_->gradients.data_ptr<float>(), static_cast<std::size_t>(impl_->gradients.numel()),
          impl_->device.is_cuda()};
}

Result<BatchTotals> Network::totals() {
  return guarded("read the loss", [&]() -> Result<BatchTotals> {
    const torch::Tensor head = impl_->reduction.narrow(0, 0, kHead).cpu();
    const auto* values = head.data_ptr<float>();
    if (!std::isfinite(values[kLoss])) {
      return Error{Code::not_finite, "train: the loss is no longer a finite number",
                   "Lower the learning rate (lr_base) or add warm-up steps."};
    }
    return BatchTotals{values[kLoss], std::llround(values[kSamples]), values[kWishToStop] > 0};
  });
}

Status Network::apply(const LocalStep& step) {
  return guarded("apply gradients", [&]() -> Status {
    const torch::NoGradGuard no_gradient;
    torch::Tensor& gradient = impl_->gradients;
    if (step.proximal != 0 && impl_->anchor.defined())
      gradient.add_(impl_->parameters - impl_->anchor, step.proximal);
    if (step.correct) gradient.add_(impl_->correction);
    impl_->optimizer->step(step.optimizer, step.learning_rate, impl_->parameters.data_ptr<float>(),
                           gradient.data_ptr<float>());
    return {};
  });
}

Result<double> Network::begin_line(const LocalStep& step) {
  const auto copy = [&](const torch::Tensor& values) {
    return guarded("copy the model", [&]() -> Result<torch::Tensor> { return values.clone(); });
  };
  // The optimiser spoils the gradient.
  const Result<torch::Tensor> gradient = copy(impl_->gradients);
  Result<torch::Tensor> start = copy(impl_->parameters);
  if (!gradient) return gradient.error();
  if (!start) return start.error();
  if (Status status = apply(step); !status) return status.error();
  return guarded("begin a line search", [&]() -> Result<double> {
    const torch::NoGradGuard no_gradient;
    impl_->line_start = *start;
    impl_->line = impl_->parameters - *start;
    return impl_->line.dot(*gradient).item<double>();
  });
}

Status Network::move_along(double length) {
  FEDQUEUE_ASSERT(impl_->line.defined());
  return guarded("move along a line", [&]() -> Status {
    const torch::NoGradGuard no_gradient;
    impl_->parameters.copy_(impl_->line_start).add_(impl_->line, length);
    return {};
  });
}

Result<double> Network::slope() {
  FEDQUEUE_ASSERT(impl_->line.defined());
  return guarded("look along a line", [&]() -> Result<double> {
    const torch::NoGradGuard no_gradient;
    return impl_->line.dot(impl_->gradients).item<double>();
  });
}

Result<EvaluationTotals> Network::evaluate(const Batch& batch) {
  FEDQUEUE_ASSERT(impl_->takes(batch) && batch.samples > 0);
  return guarded("evaluate the model", [&]() -> Result<EvaluationTotals> {
    const torch::NoGradGuard no_gradient;
    impl_->model->train(false);
    const torch::Tensor scores = impl_->model->forward(impl_->inputs(batch));
    EvaluationTotals totals;
    totals.targets = static_cast<std::int64_t>(batch.targets.size());
    totals.loss_sum = impl_->loss_sum(scores, batch).item<double>();
    totals.correct = scores.reshape({-1, scores.size(-1)})
                         .argmax(1)
                         .eq(impl_->targets(batch))
                         .sum()
                         .item<std::int64_t>();
    return totals;
  });
}

}  // namespace fedqueue
