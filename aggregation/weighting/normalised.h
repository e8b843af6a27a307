// FedNova's normalised averaging: facilities that ran different numbers of steps pull equally hard.
//
//   w ← w − τ_eff · Σ p_k·G_k/a_k,  τ_eff = Σ p_k·a_k  (with a proximal term: Σ p_k·steps_k)
//
// With deltas Δ_k = −G_k the weight of an update is τ_eff·p_k/a_k. a_k is the length of what a
// client's optimiser adds up over its steps: plain SGD: the steps; momentum m: c ← m·c + 1,
// a ← a + c each step; proximal term: a ← a·(1 − η·µ) + 1; both: momentum first.
//
// Promises: finite results ≥ 0; a facility without a step gets no weight.
// Thread safety: pure functions.
// Source: Wang et al., arXiv 2007.07481, and its reference code.
#pragma once

#include <cstdint>
#include <span>

namespace fedqueue {

struct LocalOptimizer {
  double learning_rate = 0;  // η
  double momentum = 0;       // m, below 1
  double proximal = 0;       // µ
};

[[nodiscard]] double nova_normaliser(std::int64_t steps, const LocalOptimizer& optimizer);

// Turns shares p_k, which sum to 1, into the weights of the deltas. REQUIRES: equal lengths.
void normalise_by_steps(std::span<double> shares, std::span<const std::int64_t> steps,
                        const LocalOptimizer& optimizer);

}  // namespace fedqueue
