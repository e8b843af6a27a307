// The local optimisers on flat buffers (recipe/optimizer_settings.h has their formulas).
//
// Parameters, gradients and state each lie in one buffer, on one device; layers are ranges of it in
// order. LibTorch does the arithmetic and stays behind this header.
//
// Momentum is kept without the learning rate, so that a schedule may change the rate at any step.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "fedclient/recipe/optimizer_settings.h"

namespace fedqueue {

struct Layer {
  std::int64_t count = 0;
  bool adapts = true;  // decays and is scaled by its length: weights of two or more dimensions
};

// Where the buffers lie.
struct BufferDevice {
  bool cuda = false;
  int ordinal = 0;
};

// On the host. Empty vectors: nothing of that kind yet.
struct OptimizerState {
  LocalOptimizer kind = LocalOptimizer::sgd;
  std::int64_t steps = 0;     // that the bias corrections count
  std::vector<float> first;   // velocity, or mean gradient
  std::vector<float> second;  // mean squared gradient

  friend bool operator==(const OptimizerState&, const OptimizerState&) = default;
};

class Optimizer {
 public:
  Optimizer(std::vector<Layer> layers, BufferDevice device);
  ~Optimizer();
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;

  // One step: parameters move against the gradient, which serves as scratch memory. State of
  // another kind of optimiser is forgotten. REQUIRES: as many values as the layers have.
  // Exceptions of LibTorch are the caller's.
  void step(const OptimizerSettings& settings, double learning_rate, float* parameters,
            float* gradient);

  // As at the start.
  void reset();

  [[nodiscard]] OptimizerState state() const;
  // REQUIRES: vectors that are empty or have as many values as the layers.
  void set_state(const OptimizerState& state);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fedqueue
