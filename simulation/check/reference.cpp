#include "simulation/check/reference.h"

#include <algorithm>
#include <cmath>

namespace fedqueue::simulation {
namespace {

double sign(double value) { return value > 0 ? 1 : value < 0 ? -1 : 0; }

}  // namespace

std::vector<double> ReferenceServer::next(const ReduceStarted& plan, const Bytes& current,
                                          const std::vector<SharedBytes>& updates,
                                          const std::vector<SharedBytes>& bases) {
  const std::span<const float> old = to_floats(current);
  const std::size_t size = old.size();
  std::vector<double> model(size);
  next_state_ = state_;
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
  const ServerStep& step = plan.step;
  State& state = next_state_;
  const bool adaptive = step.optimizer == ServerOptimizer::adam ||
                        step.optimizer == ServerOptimizer::yogi ||
                        step.optimizer == ServerOptimizer::adagrad;
  state.first.resize(size, 0);
  state.second.resize(size, adaptive ? step.tau * step.tau : 0);
  ++state.pushes;
  const bool push = step.delay > 0 && state.pushes % step.delay == 0;
  for (std::size_t i = 0; i < size; ++i) {
    double d = 0;
    for (std::size_t k = 0; k < updates.size(); ++k) {
      d += plan.updates[k].weight * to_floats(*updates[k])[i];
    }
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
      default:
        break;
    }
    model[i] = old[i] + step.learning_rate * move;
  }
  return model;
}

void ReferenceServer::accept() { state_ = next_state_; }

std::string difference(const std::vector<double>& expected, const Bytes& published, double scale) {
  const std::span<const float> values = to_floats(published);
  if (values.size() != expected.size()) {
    return "it has " + std::to_string(values.size()) + " elements, and " +
           std::to_string(expected.size()) + " are right";
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double tolerance = 1e-5 * std::max(scale, std::abs(expected[i]));
    if (!(std::abs(values[i] - expected[i]) <= tolerance)) {
      return "element " + std::to_string(i) + " is " + std::to_string(values[i]) + ", and " +
             std::to_string(expected[i]) + " is right";
    }
  }
  return "";
}

}  // namespace fedqueue::simulation
