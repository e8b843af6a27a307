#include "simulation/check/reference.h"

#include <algorithm>
#include <cmath>

namespace fedqueue::simulation {
namespace {

double sign(double value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

double product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

std::vector<double> ReferenceServer::next(const ReduceStarted& plan, const Bytes& current,
                                          const std::vector<SharedBytes>& updates,
                                          const std::vector<SharedBytes>& bases, Side side) {
  const std::span<const float> old = to_floats(current);
  const std::size_t size = old.size();
  std::vector<double> model(size);
  next_state_ = state_;
  near_an_edge_ = false;
  if (plan.rebuild_models) {
    for (std::size_t i = 0; i < size; ++i) {
      model[i] = plan.keep * old[i];
      for (std::size_t k = 0; k < updates.size(); ++k) {
        const double whole = static_cast<double>(to_floats(*bases[k])[i]) +
                             static_cast<double>(to_floats(*updates[k])[i]);
        model[i] += plan.updates[k].weight * whole;
      }
    }
    return model;
  }
  const std::size_t parameters = with_controls_ ? size / 2 : size;
  for (std::size_t i = parameters; i < size; ++i) {
    model[i] = old[i];
    for (const SharedBytes& update : updates)
      model[i] += plan.control_weight * to_floats(*update)[i];
  }
  std::vector<double> sum(parameters);
  for (std::size_t i = 0; i < parameters; ++i) {
    for (std::size_t k = 0; k < updates.size(); ++k)
      sum[i] += plan.updates[k].weight * to_floats(*updates[k])[i];
  }
  const ServerStep& step = plan.step;
  State& state = next_state_;
  const bool looks_ahead = step.optimizer == ServerOptimizer::heloco;
  if (looks_ahead && state.pushes == 0)
    state.second.assign(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(parameters));
  const bool adaptive = step.optimizer == ServerOptimizer::adam ||
                        step.optimizer == ServerOptimizer::yogi ||
                        step.optimizer == ServerOptimizer::adagrad;
  state.first.resize(parameters, 0);
  state.second.resize(parameters, adaptive ? step.tau * step.tau : 0);
  if (looks_ahead) sum = corrected(sum, side);
  ++state.pushes;
  const bool push = step.delay > 0 && state.pushes % step.delay == 0;
  for (std::size_t i = 0; i < parameters; ++i) {
    const double d = sum[i];
    double& m = state.first[i];
    double& v = state.second[i];
    double move = d;
    switch (step.optimizer) {
      case ServerOptimizer::momentum:
        m = step.momentum * m + d;
        move = m;
        break;
      case ServerOptimizer::nesterov:
        m = step.momentum * m + d;
        move = d + step.momentum * m;
        break;
      case ServerOptimizer::adam:
      case ServerOptimizer::yogi:
      case ServerOptimizer::adagrad:
        m = step.momentum * m + (1 - step.momentum) * d;
        if (step.optimizer == ServerOptimizer::adam) {
          v = step.beta2 * v + (1 - step.beta2) * d * d;
        } else if (step.optimizer == ServerOptimizer::yogi) {
          v = v - (1 - step.beta2) * d * d * sign(v - d * d);
        } else {
          v = v + d * d;
        }
        move = m / (std::sqrt(v) + step.tau);
        break;
      case ServerOptimizer::delayed_nesterov:
        v += d;
        if (push) {
          m = step.momentum * m + v;
          v = 0;
          move = d + step.momentum * m;
        }
        break;
      case ServerOptimizer::heloco:  // v is the model without look-ahead
        m = step.momentum * m + (1 - step.momentum) * d;
        v += step.learning_rate * (d + step.momentum * m);
        model[i] = v + step.learning_rate * step.momentum * m;
        continue;
      default:
        break;
    }
    model[i] = old[i] + step.learning_rate * move;
  }
  return model;
}

// By the angle between the delta and the momentum, as vectors.
std::vector<double> ReferenceServer::corrected(const std::vector<double>& delta, Side side) {
  constexpr double rounding = 1e-5;
  const std::vector<double>& momentum = next_state_.first;
  const double length = std::sqrt(product(delta, delta));
  const double speed = std::sqrt(product(momentum, momentum));
  if (length < 1e-8 || speed < 1e-8) return delta;
  double cosine = product(delta, momentum) / (length * speed);
  for (const double angle : {0.0, 0.2}) {
    if (std::abs(cosine - angle) > rounding) continue;
    near_an_edge_ = true;
    if (side == Side::other) cosine = cosine >= angle ? std::nextafter(angle, -1) : angle;
  }
  if (cosine >= 0.2) return delta;
  const double confidence = length / (length + 3 * speed + 1e-8);
  std::vector<double> result = delta;
  if (cosine < 0) {
    const double beta = std::min(-cosine * confidence / 2, 0.5);
    for (std::size_t i = 0; i < delta.size(); ++i)
      result[i] = delta[i] - beta * cosine * length * momentum[i] / speed;
    return result;
  }
  const double towards = std::min((1 - cosine) * confidence, 1.0);
  for (std::size_t i = 0; i < delta.size(); ++i)
    result[i] = (1 - towards) * delta[i] / length + towards * momentum[i] / speed;
  const double direction = std::sqrt(product(result, result));
  for (double& value : result) value *= length / direction;
  return result;
}

void ReferenceServer::accept() { state_ = next_state_; }

std::string difference(std::span<const double> expected, std::span<const float> published,
                       double scale) {
  for (std::size_t i = 0; i < published.size(); ++i) {
    const double tolerance = 1e-5 * std::max(scale, std::abs(expected[i]));
    if (!(std::abs(published[i] - expected[i]) <= tolerance)) {
      return "element " + std::to_string(i) + " is " + std::to_string(published[i]) + ", and " +
             std::to_string(expected[i]) + " is right";
    }
  }
  return "";
}

}  // namespace fedqueue::simulation
