// The loops of the server optimisers over a range of elements; the arithmetic is that of
// server_step.h. Everything points the way of the update D, so that momenta of methods that are
// written with gradients g = −D have the other sign here.
//
// State has one or two vectors of the model's size:
//
//   momentum, nesterov     m                      the momentum
//   adam, yogi, adagrad    m, v (begins at τ²)    first and second moment
//   delayed_nesterov       m, c                   momentum, and the sum of the pushes since it
//   heloco                 m, w (begins as the model)   momentum, and the model without look-ahead
//
// HeLoCo bends D towards the momentum, for each tensor by the angle between the two. With
// cos = D·m/(|D||m|) and conf = |D|/(|D| + 3|m| + ε):
//
//   cos ≥ 0.2        D stays
//   0 ≤ cos < 0.2    D ← |D|·u/|u|,  u = (1 − l)·D/|D| + l·m/|m|,  l = min((1 − cos)·conf, 1)
//   cos < 0          D ← D − β·cos·|D|·m/|m|,  β = min(−cos·conf/2, 1/2)
//
// Each is own·D + pull·m with two numbers per tensor, which need three sums over it. A D or m
// shorter than 1e-8 leaves D as it is.
//
// Every element is computed alone, in the type it is given in, without fused multiply-add: results
// are the same bits on every processor and however a tensor is cut, but for the three sums, which
// go through eight lanes and are as exact as doubles.
//
// Thread safety: pure functions.
// Source: as server_step.h; HeLoCo arXiv 2606.00271.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "aggregation/optimizer/server_step.h"

namespace fedqueue {

// What a vector of the state holds before the first step.
enum class StateBegin { zero, tau_squared, model };

struct StateVector {
  std::string_view name;  // "m", "v", "c" or "w"
  StateBegin begin = StateBegin::zero;
};

// The vectors of an optimiser's state, in the order of StepRange: none, one or two.
[[nodiscard]] std::span<const StateVector> state_vectors(ServerOptimizer optimizer);

// HeLoCo's three sums over a tensor, or over a part of it.
struct HelocoSums {
  double product = 0;   // Σ D·m
  double delta = 0;     // Σ D²
  double momentum = 0;  // Σ m²
};

// What becomes of D: own·D + pull·m.
struct HelocoCorrection {
  double own = 1;
  double pull = 0;
};

[[nodiscard]] HelocoCorrection heloco_correction(const HelocoSums& sums);

// A server step with what is decided once for all elements of a tensor.
struct PreparedStep {
  ServerStep step;
  bool momentum_due = false;    // delayed_nesterov: this push is the last of `delay`
  HelocoCorrection correction;  // heloco
};

// Whether the push after `pushes` earlier ones ends a period.
[[nodiscard]] bool momentum_due(const ServerStep& step, std::int64_t pushes);

template <typename Real>
struct StepRange {
  std::span<Real> weights;      // of the model: before the step, then after it
  std::span<const Real> delta;  // D
  std::span<Real> first;        // m; empty without state
  std::span<Real> second;       // v, c or w; empty without a second vector
};

// REQUIRES: spans of equal length, for the vectors that state_vectors() names.
void apply_step(const PreparedStep& step, const StepRange<float>& range);
void apply_step(const PreparedStep& step, const StepRange<double>& range);

[[nodiscard]] HelocoSums heloco_sums(std::span<const float> delta, std::span<const float> momentum);
[[nodiscard]] HelocoSums heloco_sums(std::span<const double> delta,
                                     std::span<const double> momentum);

}  // namespace fedqueue
