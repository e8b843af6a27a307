// What the server does with the weighted sum of a round: the server optimiser and its parameters.
//
// With D = Σ a_k·Δ_k (Δ_k = w_k − base_k, "plus" direction), lr, and state that starts at 0 unless
// said otherwise:
//
//   none              w ← w + lr·D
//   momentum          v ← m·v + D                  w ← w + lr·v
//   adam              u ← m·u + (1−m)·D            w ← w + lr·u/(√v + τ)       v starts at τ²
//                     v ← β₂·v + (1−β₂)·D²
//   yogi              as adam, but                 v ← v − (1−β₂)·D²·sign(v − D²), sign(0) = 0
//   adagrad           as adam, but                 v ← v + D²
//   nesterov          b ← m·b + D                  w ← w + lr·(D + m·b)
//   delayed_nesterov  w ← w + lr·D at each push, c ← c + D; at every `delay`-th push
//                     b ← m·b + c                  w ← w + lr·m·b              c ← 0
//   heloco            D corrected against u per tensor, then
//                     u ← m·u + (1−m)·D            w ← w + lr·(D + m·u)
//
// There is no bias correction. The 1/N of a delayed push is in the weights a_k, not here. Under
// heloco the published model is the look-ahead w + lr·m·u.
//
// Thread safety: plain values and pure functions.
// Source: Hsu et al., arXiv 1909.06335 (momentum); Reddi et al., arXiv 2003.00295 (adam, yogi,
// adagrad); Liu et al., arXiv 2401.09135 (delayed Nesterov); arXiv 2606.00271 (HeLoCo).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

enum class ServerOptimizer {
  none,
  momentum,
  adam,
  yogi,
  adagrad,
  nesterov,
  delayed_nesterov,
  heloco
};

struct ServerStep {
  ServerOptimizer optimizer = ServerOptimizer::none;
  double learning_rate = 1;  // lr
  double momentum = 0.9;     // m; β₁ of adam, yogi and adagrad
  double beta2 = 0.99;       // of adam and yogi
  double tau = 1e-3;         // τ of adam, yogi and adagrad: how far they adapt
  std::int64_t delay = 10;   // pushes between two momentum steps of delayed_nesterov

  // Whether anything must be remembered from one round to the next.
  [[nodiscard]] bool has_state() const { return optimizer != ServerOptimizer::none; }

  // Code::usage with the first parameter that is out of range.
  [[nodiscard]] Status validate() const;

  friend bool operator==(const ServerStep&, const ServerStep&) = default;
};

// "none", "momentum", "adam", "yogi", "adagrad", "nesterov", "delayed_nesterov", "heloco".
[[nodiscard]] std::string_view server_optimizer_name(ServerOptimizer optimizer);
// Code::usage with the nearest name for anything else.
[[nodiscard]] Result<ServerOptimizer> parse_server_optimizer(std::string_view text);
[[nodiscard]] std::vector<std::string_view> server_optimizer_names();

}  // namespace fedqueue
