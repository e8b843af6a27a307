#include "simulation/world/algebra.h"

#include <cmath>
#include <cstring>

#include "aggregation/optimizer/kernels.h"

namespace fedqueue::simulation {

namespace {

// Σ a_k·Δ_k, or Σ a_k·(base_k + Δ_k) on top of what is kept of the current model; behind the
// parameters the control weight's.
Result<std::vector<float>> weighted_sum(const ReduceStarted& plan, std::span<const float> current,
                                        std::size_t parameters,
                                        const std::vector<SharedBytes>& updates,
                                        const std::vector<SharedBytes>& bases) {
  const auto control_weight = static_cast<float>(plan.control_weight);
  const auto keep = static_cast<float>(plan.rebuild_models ? plan.keep : 0);
  std::vector<float> sum(current.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = keep * current[i];
  for (std::size_t k = 0; k < updates.size(); ++k) {
    const std::span<const float> delta = to_floats(*updates[k]);
    const std::span<const float> base = plan.rebuild_models ? to_floats(*bases[k]) : delta;
    const auto weight = static_cast<float>(plan.updates[k].weight);
    if (delta.size() != sum.size() || base.size() != sum.size()) {
      return Error{Code::model_mismatch,
                   "update " + plan.updates[k].id.str() + " is of another size", ""};
    }
    for (std::size_t i = 0; i < parameters; ++i) {
      sum[i] += weight * (plan.rebuild_models ? base[i] + delta[i] : delta[i]);
    }
    for (std::size_t i = parameters; i < sum.size(); ++i) sum[i] += control_weight * delta[i];
  }
  return sum;
}

// What a server step remembers: pushes so far, then its vectors.
struct StepState {
  std::int64_t pushes = 0;
  std::vector<float> vectors[2];
};

StepState read_state(const ServerStep& step, std::span<const float> model, const Bytes* bytes) {
  StepState state;
  const std::span<const StateVector> vectors = state_vectors(step.optimizer);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    const double tau_squared = step.tau * step.tau;
    const bool adapts = vectors[v].begin == StateBegin::tau_squared;
    state.vectors[v].assign(model.size(), adapts ? static_cast<float>(tau_squared) : 0);
    if (vectors[v].begin == StateBegin::model) state.vectors[v].assign(model.begin(), model.end());
  }
  const std::size_t size = sizeof state.pushes + vectors.size() * model.size_bytes();
  if (bytes == nullptr || bytes->size() != size) return state;
  std::memcpy(&state.pushes, bytes->data(), sizeof state.pushes);
  for (std::size_t v = 0; v < vectors.size(); ++v) {
    std::memcpy(state.vectors[v].data(),
                bytes->data() + sizeof state.pushes + v * model.size_bytes(), model.size_bytes());
  }
  return state;
}

Bytes write_state(const StepState& state) {
  Bytes bytes(sizeof state.pushes);
  std::memcpy(bytes.data(), &state.pushes, sizeof state.pushes);
  for (const std::vector<float>& vector : state.vectors) {
    const Bytes more = to_bytes(vector);
    bytes.insert(bytes.end(), more.begin(), more.end());
  }
  return bytes;
}

}  // namespace

Result<Reduced> ModelAlgebra::reduce(const ReduceStarted& plan, const Bytes& current,
                                     const std::vector<SharedBytes>& updates,
                                     const std::vector<SharedBytes>& bases,
                                     const Bytes* state_bytes) {
  const std::span<const float> old = to_floats(current);
  const std::size_t parameters = parameters_of(old.size());
  Result<std::vector<float>> sum = weighted_sum(plan, old, parameters, updates, bases);
  if (!sum) return sum.error();
  Reduced reduced;
  std::vector<float> model = *sum;
  if (!plan.rebuild_models) {
    model.assign(old.begin(), old.end());
    for (std::size_t i = parameters; i < model.size(); ++i) model[i] += (*sum)[i];
    sum->resize(parameters);
    StepState state = read_state(plan.step, old.first(parameters), state_bytes);
    PreparedStep prepared{plan.step, momentum_due(plan.step, state.pushes), {}};
    if (plan.step.optimizer == ServerOptimizer::heloco) {
      prepared.correction =
          heloco_correction(heloco_sums(std::span<const float>(*sum), state.vectors[0]));
    }
    apply_step(prepared, StepRange<float>{std::span(model).first(parameters), *sum,
                                          state.vectors[0], state.vectors[1]});
    ++state.pushes;
    if (plan.step.has_state()) reduced.state = write_state(state);
  }
  double squares = 0;
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (!std::isfinite(model[i])) return Error{Code::not_finite, "the sum is not finite", ""};
    const double step = static_cast<double>(model[i]) - old[i];
    if (i < parameters) squares += step * step;
  }
  reduced.model = to_bytes(model);
  reduced.step_norm = std::sqrt(squares);
  return reduced;
}

Result<double> ModelAlgebra::screen(const Bytes& update, const Bytes& model, double norm_max) {
  if (update.size() != model.size()) {
    return Error{Code::model_mismatch,
                 "the update has " + std::to_string(update.size()) + " bytes, and the model " +
                     std::to_string(model.size()),
                 ""};
  }
  double squares = 0;
  const std::span<const float> values = to_floats(update);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    if (!std::isfinite(value)) return Error{Code::not_finite, "the update is not finite", ""};
    if (i < parameters_of(values.size())) squares += value * value;
  }
  const double norm = std::sqrt(squares);
  if (norm_max > 0 && norm > norm_max) {
    return Error{Code::aggregation, "the update is too long: " + std::to_string(norm), ""};
  }
  return norm;
}

}  // namespace fedqueue::simulation
