#include "aggregation/optimizer/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

constexpr std::size_t lanes = 8;
constexpr double heloco_short = 1e-8;  // vectors below have no direction
constexpr double heloco_aligned = 0.2;
constexpr double heloco_epsilon = 1e-8;

constexpr std::array momentum_alone = {StateVector{"m"}};
constexpr std::array moments = {StateVector{"m"}, StateVector{"v", StateBegin::tau_squared}};
constexpr std::array delayed = {StateVector{"m"}, StateVector{"c"}};
constexpr std::array look_ahead = {StateVector{"m"}, StateVector{"w", StateBegin::model}};

template <typename Real>
void plain(const ServerStep& step, const StepRange<Real>& range) {
  const auto rate = static_cast<Real>(step.learning_rate);
  for (std::size_t i = 0; i < range.weights.size(); ++i) range.weights[i] += rate * range.delta[i];
}

template <typename Real>
void momentum(const ServerStep& step, const StepRange<Real>& range) {
  const auto rate = static_cast<Real>(step.learning_rate);
  const auto decay = static_cast<Real>(step.momentum);
  for (std::size_t i = 0; i < range.weights.size(); ++i) {
    const Real moved = decay * range.first[i] + range.delta[i];
    range.first[i] = moved;
    range.weights[i] += rate * moved;
  }
}

template <typename Real>
void nesterov(const ServerStep& step, const StepRange<Real>& range) {
  const auto rate = static_cast<Real>(step.learning_rate);
  const auto decay = static_cast<Real>(step.momentum);
  for (std::size_t i = 0; i < range.weights.size(); ++i) {
    const Real moved = decay * range.first[i] + range.delta[i];
    range.first[i] = moved;
    range.weights[i] += rate * (range.delta[i] + decay * moved);
  }
}

template <typename Real>
void delayed_nesterov(const PreparedStep& prepared, const StepRange<Real>& range) {
  const auto rate = static_cast<Real>(prepared.step.learning_rate);
  const auto decay = static_cast<Real>(prepared.step.momentum);
  for (std::size_t i = 0; i < range.weights.size(); ++i) {
    range.weights[i] += rate * range.delta[i];
    range.second[i] += range.delta[i];
  }
  if (!prepared.momentum_due) return;
  for (std::size_t i = 0; i < range.weights.size(); ++i) {
    const Real moved = decay * range.first[i] + range.second[i];
    range.first[i] = moved;
    range.second[i] = 0;
    range.weights[i] += rate * (decay * moved);
  }
}

// adam, yogi and adagrad differ in the second moment alone.
template <typename Real, typename SecondMoment>
void adaptive(const ServerStep& step, const StepRange<Real>& range, SecondMoment second_moment) {
  const auto rate = static_cast<Real>(step.learning_rate);
  const auto decay = static_cast<Real>(step.momentum);
  const auto fresh = static_cast<Real>(1 - step.momentum);
  const auto tau = static_cast<Real>(step.tau);
  for (std::size_t i = 0; i < range.weights.size(); ++i) {
    const Real delta = range.delta[i];
    const Real first = decay * range.first[i] + fresh * delta;
    const Real second = second_moment(range.second[i], delta * delta);
    range.first[i] = first;
    range.second[i] = second;
    range.weights[i] += rate * first / (std::sqrt(second) + tau);
  }
}

template <typename Real>
void adam(const ServerStep& step, const StepRange<Real>& range) {
  adaptive(step, range,
           [decay = static_cast<Real>(step.beta2), fresh = static_cast<Real>(1 - step.beta2)](
               Real second, Real square) { return decay * second + fresh * square; });
}

template <typename Real>
void yogi(const ServerStep& step, const StepRange<Real>& range) {
  adaptive(step, range, [fresh = static_cast<Real>(1 - step.beta2)](Real second, Real square) {
    const Real sign = static_cast<Real>(second > square) - static_cast<Real>(second < square);
    return second - fresh * square * sign;
  });
}

template <typename Real>
void adagrad(const ServerStep& step, const StepRange<Real>& range) {
  adaptive(step, range, [](Real second, Real square) { return second + square; });
}

template <typename Real>
void heloco(const PreparedStep& prepared, const StepRange<Real>& range) {
  const auto rate = static_cast<Real>(prepared.step.learning_rate);
  const auto decay = static_cast<Real>(prepared.step.momentum);
  const auto fresh = static_cast<Real>(1 - prepared.step.momentum);
  const auto own = static_cast<Real>(prepared.correction.own);
  const auto pull = static_cast<Real>(prepared.correction.pull);
  for (std::size_t i = 0; i < range.weights.size(); ++i) {
    const Real delta = own * range.delta[i] + pull * range.first[i];
    const Real moved = decay * range.first[i] + fresh * delta;
    const Real weight = range.second[i] + rate * (delta + decay * moved);
    range.first[i] = moved;
    range.second[i] = weight;
    range.weights[i] = weight + rate * (decay * moved);
  }
}

template <typename Real>
void apply(const PreparedStep& prepared, const StepRange<Real>& range) {
  const std::size_t vectors = state_vectors(prepared.step.optimizer).size();
  FEDQUEUE_ASSERT(range.delta.size() == range.weights.size());
  FEDQUEUE_ASSERT(vectors < 1 || range.first.size() == range.weights.size());
  FEDQUEUE_ASSERT(vectors < 2 || range.second.size() == range.weights.size());
  switch (prepared.step.optimizer) {
    case ServerOptimizer::none:
      return plain(prepared.step, range);
    case ServerOptimizer::momentum:
      return momentum(prepared.step, range);
    case ServerOptimizer::adam:
      return adam(prepared.step, range);
    case ServerOptimizer::yogi:
      return yogi(prepared.step, range);
    case ServerOptimizer::adagrad:
      return adagrad(prepared.step, range);
    case ServerOptimizer::nesterov:
      return nesterov(prepared.step, range);
    case ServerOptimizer::delayed_nesterov:
      return delayed_nesterov(prepared, range);
    case ServerOptimizer::heloco:
      return heloco(prepared, range);
  }
}

double total(const std::array<double, lanes>& sums) {
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

template <typename Real>
HelocoSums sums_of(std::span<const Real> deltas, std::span<const Real> momenta) {
  FEDQUEUE_ASSERT(deltas.size() == momenta.size());
  std::array<double, lanes> products{};
  std::array<double, lanes> delta_squares{};
  std::array<double, lanes> momentum_squares{};
  const auto take = [&](std::size_t lane, std::size_t i) {
    const auto delta = static_cast<double>(deltas[i]);
    const auto momentum = static_cast<double>(momenta[i]);
    products[lane] += delta * momentum;
    delta_squares[lane] += delta * delta;
    momentum_squares[lane] += momentum * momentum;
  };
  std::size_t i = 0;
  for (; i + lanes <= deltas.size(); i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) take(lane, i + lane);
  }
  for (std::size_t lane = 0; i < deltas.size(); ++i, ++lane) take(lane, i);
  return {total(products), total(delta_squares), total(momentum_squares)};
}

}  // namespace

std::span<const StateVector> state_vectors(ServerOptimizer optimizer) {
  switch (optimizer) {
    case ServerOptimizer::none:
      return {};
    case ServerOptimizer::momentum:
    case ServerOptimizer::nesterov:
      return momentum_alone;
    case ServerOptimizer::adam:
    case ServerOptimizer::yogi:
    case ServerOptimizer::adagrad:
      return moments;
    case ServerOptimizer::delayed_nesterov:
      return delayed;
    case ServerOptimizer::heloco:
      return look_ahead;
  }
  return {};
}

HelocoCorrection heloco_correction(const HelocoSums& sums) {
  const double delta = std::sqrt(sums.delta);
  const double momentum = std::sqrt(sums.momentum);
  // Also where a sum is not a finite number: the sum of the tensor says so later, by its name.
  if (!(delta >= heloco_short && momentum >= heloco_short) || !std::isfinite(delta * momentum)) {
    return {};
  }
  const double cosine = std::clamp(sums.product / (delta * momentum), -1.0, 1.0);
  if (cosine >= heloco_aligned) return {};
  const double confidence = delta / (delta + 3 * momentum + heloco_epsilon);
  if (cosine < 0) {
    const double beta = std::min(0.5 * -cosine * confidence, 0.5);
    return {1, -beta * cosine * delta / momentum};
  }
  const double towards = std::min((1 - cosine) * confidence, 1.0);
  const double kept = 1 - towards;
  const double length = std::sqrt(kept * kept + towards * towards + 2 * kept * towards * cosine);
  return {kept / length, delta * towards / (length * momentum)};
}

bool momentum_due(const ServerStep& step, std::int64_t pushes) {
  return step.optimizer == ServerOptimizer::delayed_nesterov && (pushes + 1) % step.delay == 0;
}

void apply_step(const PreparedStep& step, const StepRange<float>& range) { apply(step, range); }
void apply_step(const PreparedStep& step, const StepRange<double>& range) { apply(step, range); }

HelocoSums heloco_sums(std::span<const float> delta, std::span<const float> momentum) {
  return sums_of(delta, momentum);
}
HelocoSums heloco_sums(std::span<const double> delta, std::span<const double> momentum) {
  return sums_of(delta, momentum);
}

}  // namespace fedqueue
