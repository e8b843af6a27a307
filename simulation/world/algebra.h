// What a world does with the bytes of models and updates. The default takes them for arrays of
// floats, without names and shapes, of which the second half may be control variates; experiments
// with real models bring their own.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fedserver/engine/events.h"
#include "simulation/world/bytes.h"

namespace fedqueue::simulation {

struct Reduced {
  Bytes model;
  double step_norm = 0;
  std::optional<Bytes> state;  // of the server's step, when it has one
};

class ModelAlgebra {
 public:
  explicit ModelAlgebra(bool with_controls = false) : with_controls_(with_controls) {}
  virtual ~ModelAlgebra() = default;
  // The next version. `updates` and, when models are rebuilt, `bases` are in the plan's order;
  // `state` is what the last step left, and empty before the first one.
  virtual Result<Reduced> reduce(const ReduceStarted& plan, const Bytes& current,
                                 const std::vector<SharedBytes>& updates,
                                 const std::vector<SharedBytes>& bases, const Bytes* state);
  // The norm of an update, or what is wrong with it: model_mismatch, not_finite, aggregation.
  virtual Result<double> screen(const Bytes& update, const Bytes& model, double norm_max);

 private:
  // Of so many floats, how many are parameters; they come first.
  [[nodiscard]] std::size_t parameters_of(std::size_t floats) const {
    return with_controls_ ? floats / 2 : floats;
  }

  bool with_controls_;
};

}  // namespace fedqueue::simulation
