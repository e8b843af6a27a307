// The server's arithmetic on models with names and types, in memory, as the reduce worker does it
// on files:
//
//   models are mixed   w ← keep·w + Σ a_k·(base_k + delta_k)
//   deltas are added   w ← w + step(Σ a_k·delta_k)              aggregation/optimizer
//   control variates   c ← c + control_weight·Σ delta_k
//
// Integers are counters and take their maximum. Running statistics (buffers) take the weighted sum
// without the optimiser. Control variates are no part of norms. The optimiser's state travels as
// bytes: the number of pushes, then its vectors.
//
// Not thread-safe.
#pragma once

#include <deque>
#include <vector>

#include "core/tensor/manifest.h"
#include "simulation/world/algebra.h"

namespace fedqueue::simulation {

class TensorAlgebra final : public ModelAlgebra {
 public:
  explicit TensorAlgebra(tensor::Manifest manifest);

  Result<Reduced> reduce(const ReduceStarted& plan, const Bytes& current,
                         const std::vector<SharedBytes>& updates,
                         const std::vector<SharedBytes>& bases, const Bytes* state) override;
  Result<double> screen(const Bytes& update, const Bytes& model, double norm_max) override;

  // The plain mean of models, buffers included (of files aggregation/reduce/average.h makes it,
  // with pooled running variances); what is no float is the newest one's. REQUIRES: not empty.
  [[nodiscard]] Bytes mean_of(const std::deque<Bytes>& models) const;

 private:
  struct FloatRange {  // of the model's bytes, in floats
    std::size_t begin = 0;
    std::size_t count = 0;
    bool parameter = true;
    bool control = false;  // a control variate
  };

  void mix(const ReduceStarted& plan, const std::vector<SharedBytes>& updates,
           const std::vector<SharedBytes>& bases, Bytes& model) const;
  [[nodiscard]] std::vector<float> sum_of(const ReduceStarted& plan, std::size_t floats,
                                          const std::vector<SharedBytes>& updates) const;
  // The state after the step; empty without an optimiser.
  Bytes step(const ServerStep& step, const std::vector<float>& delta, const Bytes* state,
             Bytes& model) const;
  // Σ (to − from)² over all floats but control variates.
  [[nodiscard]] double squares_of_step(const Bytes& from, const Bytes& to) const;
  [[nodiscard]] bool controls_finite(const Bytes& bytes) const;
  void take_counters(Bytes& model, const std::vector<SharedBytes>& updates) const;

  tensor::Manifest manifest_;
  std::vector<FloatRange> floats_;
};

}  // namespace fedqueue::simulation
