// One replica of the model on one device: forward, backward, optimiser step, state in and out.
//
// Everything that LibTorch does is behind this header, which does not include it. Parameters,
// gradients and the optimiser's state each lie in one flat buffer, so that the ranks need few
// all-reduces per step and the optimiser a few vector operations. Gradients are handed out for
// summing in parts, from the end of the buffer, while the backward pass still computes those before
// (gradient_buckets.h). In front of the gradients, in the part that is complete last, travel the
// loss, the sample count and the wish to stop, so that these cost no further message.
//
// The gradient of a step is the sum over this rank's samples divided by the samples of the global
// batch; its sum over the ranks is therefore exactly the mean over the global batch, however
// unevenly the samples are spread.
// Source: Goyal et al., "Accurate, Large Minibatch SGD" (2017), section 3 (normalise by the global
// batch; no weight decay on biases and batch normalisation).
//
// State is exchanged as the data section of a safetensors file laid out by manifest().
// Exceptions of LibTorch become errors. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/tensor/manifest.h"
#include "fedclient/data/dataset.h"
#include "fedclient/models/network_spec.h"
#include "fedclient/recipe/optimizer_settings.h"
#include "fedclient/trainer/optimizer.h"

namespace fedqueue {

struct NetworkOptions {
  std::string device = "cpu";  // "cpu" or "cuda"
  int gpu_ordinal = 0;
  int threads = 0;  // 0: as LibTorch and OMP_NUM_THREADS say
  bool deterministic = false;
  // Gradients handed out together, at least; 0: 1 MiB on a processor, 25 MiB on a GPU.
  std::int64_t bucket_bytes = 0;
  std::uint64_t seed = 1;            // of the initial parameters
  std::filesystem::path model_file;  // TorchScript, if that is what the specification asks for
};

// A parameter tensor in the flat buffers; the ranges follow each other.
struct ParameterRange {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// Gradients of some parameters.
struct GradientRange {
  float* data = nullptr;
  std::size_t count = 0;
  bool on_device = false;
};

// What accumulate() does.
struct Pass {
  std::int64_t global_batch = 1;  // samples of the step, over all ranks
  bool wish_to_stop = false;
  bool keep_losses = false;      // sample_losses() knows those of the samples one by one
  std::int64_t micro_batch = 0;  // samples of one forward and backward; 0: all of the batch
  int measured_ranks = 0;        // not 0: of a step of so many ranks, for squares()
};

// Begins to sum a range over the ranks; totals() wants it summed. All ranges of a step are begun in
// the same order on all ranks, the last one behind the backward pass.
using BeginSum = std::function<Status(const GradientRange&)>;

struct BatchTotals {
  double loss_mean = 0;
  std::int64_t samples = 0;
  bool stop = false;
};

struct LocalStep {
  OptimizerSettings optimizer;
  double learning_rate = 0.1;
  double proximal = 0;   // FedProx: adds proximal × (w − w at the segment's start)
  bool correct = false;  // SCAFFOLD: adds what set_correction() was given
};

// Squared lengths of a step's gradients, each the mean over its samples.
struct GradientSquares {
  double rank_mean = 0;  // of one rank's, the mean over the ranks
  double global = 0;
};

struct EvaluationTotals {
  double loss_sum = 0;
  std::int64_t correct = 0;
  std::int64_t targets = 0;  // samples, or tokens
};

class Network {
 public:
  static Result<std::unique_ptr<Network>> create(const NetworkSpec& spec,
                                                 const NetworkOptions& options);
  ~Network();

  [[nodiscard]] const NetworkSpec& spec() const;
  // Names, types and shapes in the order of the data, and the metadata of the specification.
  [[nodiscard]] const tensor::Manifest& manifest() const;
  [[nodiscard]] std::int64_t parameters() const;
  [[nodiscard]] const std::vector<ParameterRange>& ranges() const;

  // Replaces parameters and buffers. REQUIRES: bytes.size() == manifest().data_bytes.
  Status load(std::span<const std::byte> bytes);
  // Copies them out. REQUIRES: as load().
  Status store(std::span<std::byte> bytes) const;

  // Forgets the optimiser's state, as after a broken step.
  void reset_optimizer();
  Result<OptimizerState> optimizer_state() const;
  Status set_optimizer_state(const OptimizerState& state);
  // Makes the present parameters the anchor of the proximal term.
  void set_anchor();
  // What SCAFFOLD adds to each gradient, for every parameter, laid out by controls_of(manifest()).
  Status set_correction(const tensor::Manifest& layout, std::span<const float> values);

  // Forward and backward over these samples, which may be none. The loss of a sample of tokens is
  // the mean over its tokens. Without `begin_sum` this rank is the only one. Batch normalisation
  // sees each micro-batch by itself.
  Status accumulate(const Batch& batch, const Pass& pass, const BeginSum& begin_sum = {});
  // REQUIRES: accumulate() with keep_losses.
  Result<std::vector<float>> sample_losses();
  // Of all parameters, in the order of ranges().
  [[nodiscard]] GradientRange gradient();
  // What the summed ranges say about the step. not_finite if its loss is.
  Result<BatchTotals> totals();
  // REQUIRES: every rank measured.
  Result<GradientSquares> squares();
  Status apply(const LocalStep& step);

  // As apply(), and the way from where the parameters were is the line of what follows. Returns the
  // slope of the loss along it, where it begins.
  Result<double> begin_line(const LocalStep& step);
  // To the beginning of the line and `length` times as far as apply() went.
  Status move_along(double length);
  // Along the line, of the gradients at hand (summed, not yet applied).
  Result<double> slope();

  // Loss and hits over these samples, without touching statistics.
  Result<EvaluationTotals> evaluate(const Batch& batch);

 private:
  struct Impl;
  explicit Network(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace fedqueue
