#include "aggregation/planning/work_budget.h"

#include <algorithm>
#include <cmath>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

bool usable(const std::optional<double>& step_seconds) {
  return step_seconds && std::isfinite(*step_seconds) && *step_seconds > 0;
}

double known_or_zero(std::optional<double> seconds) {
  return seconds && std::isfinite(*seconds) ? std::max(0.0, *seconds) : 0;
}

std::int64_t steps_in(double seconds, double step_seconds) {
  const double steps = std::floor(seconds / step_seconds);
  // Compared as doubles: the conversion of a larger value would be undefined.
  if (steps >= static_cast<double>(local_steps_max)) return local_steps_max;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(steps));
}

}  // namespace

double work_budget_s(BudgetRule rule, const BudgetInput& input) {
  const double wait_s = known_or_zero(input.predicted_wait_s);
  double budget_s = input.t_sync_s - wait_s - input.safety_s;
  if (rule == BudgetRule::corrected) {
    budget_s -= known_or_zero(input.overhead_s);
    if (input.time_limit_s && std::isfinite(*input.time_limit_s))
      budget_s = std::min(budget_s, *input.time_limit_s - input.time_limit_margin_s);
  }
  return std::max(budget_floor_s, budget_s);
}

std::int64_t local_steps(double budget_s, std::optional<double> step_seconds,
                         std::int64_t warm_up_steps) {
  const std::int64_t least = std::clamp<std::int64_t>(warm_up_steps, 1, local_steps_max);
  if (!usable(step_seconds) || !(budget_s > 0)) return least;
  return std::max(least, steps_in(budget_s, *step_seconds));
}

std::optional<std::int64_t> steps_within_limit(std::optional<double> time_limit_s, double margin_s,
                                               std::optional<double> step_seconds) {
  if (!time_limit_s || !std::isfinite(*time_limit_s) || !usable(step_seconds)) return std::nullopt;
  const double seconds = std::max(0.0, *time_limit_s - std::max(0.0, margin_s));
  return std::max<std::int64_t>(1, steps_in(seconds, *step_seconds));
}

std::optional<std::int64_t> steps_min(std::span<const std::int64_t> steps) {
  if (steps.empty()) return std::nullopt;
  return *std::min_element(steps.begin(), steps.end());
}

double scaled_learning_rate(double learning_rate_base, std::optional<std::int64_t> steps_min,
                            std::int64_t steps) {
  if (!steps_min || *steps_min < 1 || *steps_min >= steps) return learning_rate_base;
  return learning_rate_base * static_cast<double>(*steps_min) / static_cast<double>(steps);
}

double admission_deadline_s(std::optional<double> predicted_wait_s, double alpha_admission,
                            double t_sync_s, double otherwise_s) {
  if (!predicted_wait_s || !std::isfinite(*predicted_wait_s)) return otherwise_s;
  return std::max(0.0, *predicted_wait_s) + alpha_admission * t_sync_s;
}

StepTime::StepTime(double alpha, std::optional<double> seconds) : alpha_(alpha), seconds_(seconds) {
  FEDQUEUE_ASSERT(alpha > 0 && alpha <= 1);
}

void StepTime::observe(double seconds_per_step) {
  if (!std::isfinite(seconds_per_step) || seconds_per_step <= 0) return;
  seconds_ = seconds_ ? alpha_ * seconds_per_step + (1 - alpha_) * *seconds_ : seconds_per_step;
}

}  // namespace fedqueue
