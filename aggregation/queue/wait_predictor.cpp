#include "aggregation/queue/wait_predictor.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

// Ten years: no real wait is longer, and a record that says so must not end in an overflow.
constexpr double wait_max_s = 10 * 365.25 * 86400;

}  // namespace

Result<WaitPredictorKind> parse_wait_predictor_kind(std::string_view text) {
  if (text == "ewma") return WaitPredictorKind::ewma;
  if (text == "log_ewma") return WaitPredictorKind::log_ewma;
  return Error{Code::usage, "'" + std::string(text) + "' is not a queue-wait predictor",
               "use ewma or log_ewma"};
}

std::string_view wait_predictor_kind_name(WaitPredictorKind kind) {
  return kind == WaitPredictorKind::ewma ? "ewma" : "log_ewma";
}

Status WaitPredictorConfig::validate() const {
  if (!(alpha > 0 && alpha <= 1))
    return Error{Code::usage,
                 "the weight of the newest queue wait must be above 0 and at most 1, not " +
                     std::to_string(alpha),
                 "0.5 is the usual value"};
  if (q_init_s && !(std::isfinite(*q_init_s) && *q_init_s >= 0))
    return Error{
        Code::usage,
        "the initial queue wait must be a number of seconds ≥ 0, not " + std::to_string(*q_init_s),
        "leave it out if nothing is known"};
  return {};
}

WaitPredictor::WaitPredictor(const WaitPredictorConfig& config) : config_(config) {
  FEDQUEUE_ASSERT(config.validate());
  if (config_.q_init_s) state_.level = to_level(*config_.q_init_s);
}

WaitPredictor::WaitPredictor(const WaitPredictorConfig& config, const WaitPredictorState& state)
    : config_(config), state_(state) {
  FEDQUEUE_ASSERT(config.validate());
}

void WaitPredictor::observe(double wait_s) {
  if (!std::isfinite(wait_s)) return;
  const double newest = to_level(wait_s);
  const bool starts =
      !state_.level || (state_.observations == 0 && config_.prior_from_first_observation);
  state_.level = starts ? newest : config_.alpha * newest + (1 - config_.alpha) * *state_.level;
  ++state_.observations;
}

void WaitPredictor::inflate(double factor) {
  const std::optional<double> wait_s = predicted_s();
  if (!wait_s || !std::isfinite(factor) || factor <= 1) return;
  state_.level = to_level(*wait_s * factor);
}

std::optional<double> WaitPredictor::predicted_s() const {
  if (!state_.level) return std::nullopt;
  if (config_.kind == WaitPredictorKind::ewma) return *state_.level;
  return std::max(0.0, std::expm1(*state_.level));
}

double WaitPredictor::to_level(double wait_s) const {
  const double wait = std::clamp(wait_s, 0.0, wait_max_s);
  return config_.kind == WaitPredictorKind::ewma ? wait : std::log1p(wait);
}

}  // namespace fedqueue
