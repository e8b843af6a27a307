#include "simulation/world/algebra.h"

#include <cmath>

namespace fedqueue::simulation {

Result<Reduced> ModelAlgebra::reduce(const ReduceStarted& plan, const Bytes& current,
                                     const std::vector<SharedBytes>& updates,
                                     const std::vector<SharedBytes>& bases, const Bytes*) {
  const std::span<const float> old = to_floats(current);
  const auto keep = static_cast<float>(plan.rebuild_models ? plan.keep : 1);
  std::vector<float> sum(old.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = keep * old[i];
  for (std::size_t k = 0; k < updates.size(); ++k) {
    const std::span<const float> delta = to_floats(*updates[k]);
    const std::span<const float> base = plan.rebuild_models ? to_floats(*bases[k]) : delta;
    const auto weight = static_cast<float>(plan.updates[k].weight);
    if (delta.size() != old.size() || base.size() != old.size()) {
      return Error{Code::model_mismatch,
                   "update " + plan.updates[k].id.str() + " is of another size", ""};
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += weight * (plan.rebuild_models ? base[i] + delta[i] : delta[i]);
    }
  }
  double squares = 0;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    if (!std::isfinite(sum[i])) return Error{Code::not_finite, "the sum is not finite", ""};
    const double step = static_cast<double>(sum[i]) - old[i];
    squares += step * step;
  }
  return Reduced{to_bytes(sum), std::sqrt(squares), {}};
}

Result<double> ModelAlgebra::screen(const Bytes& update, const Bytes& model, double norm_max) {
  if (update.size() != model.size()) {
    return Error{Code::model_mismatch,
                 "the update has " + std::to_string(update.size()) + " bytes, and the model " +
                     std::to_string(model.size()),
                 ""};
  }
  double squares = 0;
  for (const float value : to_floats(update)) {
    if (!std::isfinite(value)) return Error{Code::not_finite, "the update is not finite", ""};
    squares += static_cast<double>(value) * value;
  }
  const double norm = std::sqrt(squares);
  if (norm_max > 0 && norm > norm_max) {
    return Error{Code::aggregation, "the update is too long: " + std::to_string(norm), ""};
  }
  return norm;
}

}  // namespace fedqueue::simulation
