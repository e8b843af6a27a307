// How much work a facility can do in one round, given its predicted queue wait: the time budget J,
// the local steps E, the learning rate η and the admission deadline D.
//
//   published   J = max(0.5, T − q^ − θ)                         whatever the job's time limit
//   corrected   J = max(0.5, min(T − q^ − δ − o^, limit − margin))
//   E = max(⌊J / c^⌋, warm-up)      η = η_base · E_min / E      D = q^ + a·T
//
// Promises: every result is finite; steps ≥ 1; budgets and deadlines ≥ 0, whatever the predictors
// say. Under `corrected` the warm-up never asks for more steps than fit in the job's time limit.
//
// Thread safety: pure functions; StepTime is a value type.
// Source: FedQueue (arXiv 2605.02125), the reference code's formulas.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/base/result.h"

namespace fedqueue {

inline constexpr double budget_floor_s = 0.5;
// Above any real job; keeps a tiny step time from asking for more steps than a counter can hold.
inline constexpr std::int64_t local_steps_max = 1'000'000'000;

enum class BudgetRule { published, corrected };

struct BudgetInput {
  double t_sync_s = 0;
  double safety_s = 0;                     // θ, δ
  std::optional<double> predicted_wait_s;  // q^; unknown counts as 0
  double overhead_s = 0;                   // o^: launch and transfers (corrected alone)
  std::optional<double> time_limit_s;      // of the job, or what is left of it (corrected alone)
  double time_limit_margin_s = 0;
};

[[nodiscard]] double work_budget_s(BudgetRule rule, const BudgetInput& input);

// max(⌊budget / c^⌋, warm-up), within 1 and local_steps_max. With c^ unknown (or not positive):
// the warm-up.
[[nodiscard]] std::int64_t local_steps(double budget_s, std::optional<double> step_seconds,
                                       std::int64_t warm_up_steps);

// The most steps that fit in the time limit less its margin; absent when either is unknown. ≥ 1.
[[nodiscard]] std::optional<std::int64_t> steps_within_limit(std::optional<double> time_limit_s,
                                                             double margin_s,
                                                             std::optional<double> step_seconds);

// E_min over the given steps; absent for an empty list.
[[nodiscard]] std::optional<std::int64_t> steps_min(std::span<const std::int64_t> steps);

// η_base · E_min / E, never above η_base.
[[nodiscard]] double scaled_learning_rate(double learning_rate_base,
                                          std::optional<std::int64_t> steps_min,
                                          std::int64_t steps);

// D = q^ + a·T. With an unknown wait: `otherwise_s`.
[[nodiscard]] double admission_deadline_s(std::optional<double> predicted_wait_s,
                                          double alpha_admission, double t_sync_s,
                                          double otherwise_s);

// Seconds per local step of one facility, an exponentially weighted average that starts at the
// first observation. Observations that are not finite or not positive are ignored.
class StepTime {
 public:
  // REQUIRES: 0 < alpha ≤ 1.
  explicit StepTime(double alpha, std::optional<double> seconds = std::nullopt);
  void observe(double seconds_per_step);
  [[nodiscard]] std::optional<double> seconds() const { return seconds_; }

 private:
  double alpha_;
  std::optional<double> seconds_;
};

}  // namespace fedqueue
