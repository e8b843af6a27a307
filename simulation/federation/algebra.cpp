#include "simulation/federation/algebra.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "aggregation/optimizer/kernels.h"
#include "core/base/assert.h"

namespace fedqueue::simulation {
namespace {

std::span<float> floats_at(Bytes& bytes, std::size_t begin, std::size_t count) {
  return {reinterpret_cast<float*>(bytes.data()) + begin, count};
}

std::span<const float> floats_at(const Bytes& bytes, std::size_t begin, std::size_t count) {
  return {reinterpret_cast<const float*>(bytes.data()) + begin, count};
}

// The optimiser's state, unpacked.
struct State {
  std::int64_t pushes = 0;
  std::vector<float> vectors[2];
};

State begun(const ServerStep& step, const Bytes& model, std::size_t floats) {
  State state;
  const auto kinds = state_vectors(step.optimizer);
  for (std::size_t v = 0; v < kinds.size(); ++v) {
    state.vectors[v].assign(floats, 0);
    if (kinds[v].begin == StateBegin::tau_squared) {
      std::fill(state.vectors[v].begin(), state.vectors[v].end(),
                static_cast<float>(step.tau * step.tau));
    }
    if (kinds[v].begin == StateBegin::model)
      std::memcpy(state.vectors[v].data(), model.data(), floats * sizeof(float));
  }
  return state;
}

State unpacked(const Bytes& bytes, std::size_t vectors, std::size_t floats) {
  State state;
  FEDQUEUE_ASSERT(bytes.size() == sizeof state.pushes + vectors * floats * sizeof(float));
  std::memcpy(&state.pushes, bytes.data(), sizeof state.pushes);
  for (std::size_t v = 0; v < vectors; ++v) {
    state.vectors[v].resize(floats);
    std::memcpy(state.vectors[v].data(),
                bytes.data() + sizeof state.pushes + v * floats * sizeof(float),
                floats * sizeof(float));
  }
  return state;
}

Bytes packed(const State& state) {
  Bytes bytes(sizeof state.pushes);
  std::memcpy(bytes.data(), &state.pushes, sizeof state.pushes);
  for (const std::vector<float>& vector : state.vectors) {
    const auto view = std::as_bytes(std::span(vector));
    bytes.insert(bytes.end(), view.begin(), view.end());
  }
  return bytes;
}

}  // namespace

TensorAlgebra::TensorAlgebra(tensor::Manifest manifest) : manifest_(std::move(manifest)) {
  for (const tensor::TensorInfo& info : manifest_.tensors) {
    if (info.dtype != tensor::DType::f32) continue;
    const bool control = tensor::is_control(info);
    floats_.push_back({info.begin / sizeof(float), info.elements(),
                       !control && !manifest_.is_buffer(info.name), control});
  }
}

void TensorAlgebra::mix(const ReduceStarted& plan, const std::vector<SharedBytes>& updates,
                        const std::vector<SharedBytes>& bases, Bytes& model) const {
  const auto keep = static_cast<float>(plan.keep);
  for (const FloatRange& range : floats_) {
    FEDQUEUE_ASSERT(!range.control);  // the policy refuses to mix models that have them
    const std::span<float> out = floats_at(model, range.begin, range.count);
    for (float& value : out) value *= keep;
    for (std::size_t k = 0; k < updates.size(); ++k) {
      const auto weight = static_cast<float>(plan.updates[k].weight);
      const auto base = floats_at(*bases[k], range.begin, range.count);
      const auto delta = floats_at(*updates[k], range.begin, range.count);
      for (std::size_t i = 0; i < range.count; ++i) out[i] += weight * (base[i] + delta[i]);
    }
  }
}

std::vector<float> TensorAlgebra::sum_of(const ReduceStarted& plan, std::size_t floats,
                                         const std::vector<SharedBytes>& updates) const {
  std::vector<float> sum(floats, 0);
  for (std::size_t k = 0; k < updates.size(); ++k) {
    for (const FloatRange& range : floats_) {
      const auto weight =
          static_cast<float>(range.control ? plan.control_weight : plan.updates[k].weight);
      const auto delta = floats_at(*updates[k], range.begin, range.count);
      for (std::size_t i = 0; i < range.count; ++i) sum[range.begin + i] += weight * delta[i];
    }
  }
  return sum;
}

Bytes TensorAlgebra::step(const ServerStep& step, const std::vector<float>& delta,
                          const Bytes* before, Bytes& model) const {
  const std::size_t vectors = state_vectors(step.optimizer).size();
  State state = before != nullptr ? unpacked(*before, vectors, delta.size())
                                  : begun(step, model, delta.size());
  PreparedStep prepared{step, momentum_due(step, state.pushes), {}};
  for (const FloatRange& range : floats_) {
    const std::span<const float> change(delta.data() + range.begin, range.count);
    const std::span<float> weights = floats_at(model, range.begin, range.count);
    if (!range.parameter) {
      for (std::size_t i = 0; i < range.count; ++i) weights[i] += change[i];
      continue;
    }
    StepRange<float> part{weights, change, {}, {}};
    if (vectors > 0) part.first = {state.vectors[0].data() + range.begin, range.count};
    if (vectors > 1) part.second = {state.vectors[1].data() + range.begin, range.count};
    if (step.optimizer == ServerOptimizer::heloco)
      prepared.correction = heloco_correction(heloco_sums(change, part.first));
    apply_step(prepared, part);
  }
  ++state.pushes;
  return step.has_state() ? packed(state) : Bytes();
}

void TensorAlgebra::take_counters(Bytes& model, const std::vector<SharedBytes>& updates) const {
  for (const tensor::TensorInfo& info : manifest_.tensors) {
    if (info.dtype != tensor::DType::i64) continue;
    for (std::uint64_t at = info.begin; at < info.end; at += sizeof(std::int64_t)) {
      std::int64_t most = 0;
      std::memcpy(&most, model.data() + at, sizeof most);
      for (const SharedBytes& update : updates) {
        std::int64_t value = 0;
        std::memcpy(&value, update->data() + at, sizeof value);
        most = std::max(most, value);
      }
      std::memcpy(model.data() + at, &most, sizeof most);
    }
  }
}

double TensorAlgebra::squares_of_step(const Bytes& from, const Bytes& to) const {
  double squares = 0;
  for (const FloatRange& range : floats_) {
    if (range.control) continue;
    const auto before = floats_at(from, range.begin, range.count);
    const auto after = floats_at(to, range.begin, range.count);
    for (std::size_t i = 0; i < range.count; ++i) {
      const double moved = static_cast<double>(after[i]) - before[i];
      squares += moved * moved;
    }
  }
  return squares;
}

bool TensorAlgebra::controls_finite(const Bytes& bytes) const {
  return std::all_of(floats_.begin(), floats_.end(), [&](const FloatRange& range) {
    const auto values = floats_at(bytes, range.begin, range.count);
    return !range.control || std::all_of(values.begin(), values.end(),
                                         [](float value) { return std::isfinite(value); });
  });
}

Result<Reduced> TensorAlgebra::reduce(const ReduceStarted& plan, const Bytes& current,
                                      const std::vector<SharedBytes>& updates,
                                      const std::vector<SharedBytes>& bases, const Bytes* state) {
  const auto other_size = [&](const SharedBytes& bytes) { return bytes->size() != current.size(); };
  if (std::any_of(updates.begin(), updates.end(), other_size) ||
      std::any_of(bases.begin(), bases.end(), other_size)) {
    return Error{Code::model_mismatch, "make the next version: an update is of another size", ""};
  }
  Reduced result;
  result.model = current;
  if (plan.rebuild_models) {
    mix(plan, updates, bases, result.model);
  } else {
    Bytes after =
        step(plan.step, sum_of(plan, current.size() / sizeof(float), updates), state, result.model);
    if (!after.empty()) result.state = std::move(after);
  }
  take_counters(result.model, updates);
  const double squares = squares_of_step(current, result.model);
  if (!std::isfinite(squares) || !controls_finite(result.model))
    return Error{Code::not_finite, "make the next version: it is not finite", ""};
  result.step_norm = std::sqrt(squares);
  return result;
}

Bytes TensorAlgebra::mean_of(const std::deque<Bytes>& models) const {
  FEDQUEUE_ASSERT(!models.empty());
  Bytes mean = models.back();
  const double share = 1.0 / static_cast<double>(models.size());
  for (const FloatRange& range : floats_) {
    std::vector<double> sum(range.count, 0);
    for (const Bytes& model : models) {
      const auto values = floats_at(model, range.begin, range.count);
      for (std::size_t i = 0; i < range.count; ++i) sum[i] += values[i];
    }
    const auto target = floats_at(mean, range.begin, range.count);
    for (std::size_t i = 0; i < range.count; ++i) target[i] = static_cast<float>(share * sum[i]);
  }
  return mean;
}

Result<double> TensorAlgebra::screen(const Bytes& update, const Bytes& model, double norm_max) {
  if (update.size() != model.size()) {
    return Error{Code::model_mismatch,
                 "screen an update: it has " + std::to_string(update.size()) +
                     " bytes, and the model " + std::to_string(model.size()),
                 ""};
  }
  double squares = 0;
  for (const FloatRange& range : floats_) {
    if (!range.parameter) continue;
    for (const float value : floats_at(update, range.begin, range.count))
      squares += static_cast<double>(value) * value;
  }
  if (!std::isfinite(squares) || !controls_finite(update))
    return Error{Code::not_finite, "screen an update: it is not finite", ""};
  const double norm = std::sqrt(squares);
  if (norm_max > 0 && norm > norm_max) {
    return Error{Code::aggregation, "screen an update: its norm is " + std::to_string(norm), ""};
  }
  return norm;
}

}  // namespace fedqueue::simulation
