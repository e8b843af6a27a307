// Predicts how long a facility's next job will wait in the batch queue, from the waits seen so far.
//
// Promises: `predicted_s()` is either absent (nothing is known) or finite and not negative,
// whatever was observed. Negative waits count as 0 and waits that are not finite are ignored, since
// one broken record of a scheduler must not spoil every later plan.
//
// Thread safety: a value type; distinct objects are independent.
// Source: FedQueue (arXiv 2605.02125) and its reference code for `ewma`; `log_ewma` averages
// ln(1 + wait), so that one spike moves it far less.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/result.h"

namespace fedqueue {

// Further predictors (quantile or conformal bounds) are added as kinds; their answer to "the wait
// that is not exceeded with probability p" then belongs beside `predicted_s()`.
enum class WaitPredictorKind { ewma, log_ewma };

[[nodiscard]] Result<WaitPredictorKind> parse_wait_predictor_kind(std::string_view text);
[[nodiscard]] std::string_view wait_predictor_kind_name(WaitPredictorKind kind);

struct WaitPredictorConfig {
  WaitPredictorKind kind = WaitPredictorKind::ewma;
  double alpha = 0.5;  // weight of the newest wait, in (0, 1]
  // The wait assumed before any was seen, or from the scheduler's own estimate; absent: unknown.
  std::optional<double> q_init_s;
  // True: the first observation replaces q_init_s (`corrected`). False: it is averaged with it
  // (`published`).
  bool prior_from_first_observation = false;

  [[nodiscard]] Status validate() const;
};

// What must be kept to carry a predictor over a restart.
struct WaitPredictorState {
  std::optional<double> level;  // seconds for ewma, ln(1 + seconds) for log_ewma
  std::int64_t observations = 0;
};

class WaitPredictor {
 public:
  // REQUIRES: config.validate() succeeds.
  explicit WaitPredictor(const WaitPredictorConfig& config);
  WaitPredictor(const WaitPredictorConfig& config, const WaitPredictorState& state);

  void observe(double wait_s);

  // The prediction times `factor` (≥ 1), after a job that failed, was cancelled or was preempted
  // and so left no usable wait. No effect while the wait is unknown.
  void inflate(double factor);

  [[nodiscard]] std::optional<double> predicted_s() const;
  [[nodiscard]] std::int64_t observations() const { return state_.observations; }
  [[nodiscard]] const WaitPredictorState& state() const { return state_; }
  [[nodiscard]] const WaitPredictorConfig& config() const { return config_; }

 private:
  [[nodiscard]] double to_level(double wait_s) const;

  WaitPredictorConfig config_;
  WaitPredictorState state_;
};

}  // namespace fedqueue
