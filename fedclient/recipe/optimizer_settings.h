// Which local optimiser, with which constants.
//
//   sgd    v ← m·v + g + λ·w;  w ← w − η·v                       (Nesterov: − η·(g + λ·w + m·v))
//   adamw  Adam's step, and w ← w − η·λ·w beside it
//   lars   sgd with the rate of each layer multiplied by ε·|w|/(|g| + λ·|w|)
//   lamb   Adam's step plus λ·w, scaled in each layer to the length of w
//   lans   lamb on gradients of length 1, in the manner of Nesterov
//
// A layer is one parameter tensor. Those of one dimension (biases, normalisation) do not decay and
// are not scaled by the length of w.
// Sources: Loshchilov and Hutter, "Decoupled Weight Decay" (2019); You et al., "Large Batch
// Training of Convolutional Networks" (2017) and "Reducing BERT Pre-Training Time" (2020); Zheng et
// al., "Accelerated Large Batch Optimization" (2020).
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fedqueue {

enum class LocalOptimizer : std::int32_t { sgd, adamw, lars, lamb, lans };
[[nodiscard]] const char* to_text(LocalOptimizer optimizer);
[[nodiscard]] std::optional<LocalOptimizer> parse_local_optimizer(std::string_view text);

struct OptimizerSettings {
  LocalOptimizer kind = LocalOptimizer::sgd;
  double momentum = 0.9;               // sgd, lars
  bool nesterov = false;               // sgd
  double beta1 = 0.9;                  // adamw, lamb, lans
  double beta2 = 0.999;                // the same
  std::optional<double> epsilon;       // adamw 1e-8; lamb, lans 1e-6
  std::optional<double> weight_decay;  // sgd 0, lars 5e-4, adamw, lamb, lans 0.01
  double trust_coefficient = 0.001;    // lars
  double clip_norm = 0;                // of the whole gradient; 0: any length

  [[nodiscard]] double decay() const;       // with the optimiser's own default
  [[nodiscard]] double stabilizer() const;  // ε of the denominator, likewise

  friend bool operator==(const OptimizerSettings&, const OptimizerSettings&) = default;
};

}  // namespace fedqueue
