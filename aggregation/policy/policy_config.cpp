#include "aggregation/policy/policy_config.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace fedqueue {
namespace {

std::string number(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

Error must_be(std::string_view name, std::string_view expected, double got) {
  return Error{Code::usage,
               "the option " + std::string(name) + " must be " + std::string(expected) + ", not " +
                   number(got),
               ""};
}

struct Check {
  const char* name;
  std::optional<double> value;
  double least;
  bool least_allowed;
  double most;
  const char* expected;
};

constexpr double unbounded = 1e300;

std::vector<Check> checks(const PolicyConfig& config) {
  const auto real = [](const std::optional<std::int64_t>& value) -> std::optional<double> {
    if (!value) return std::nullopt;
    return static_cast<double>(*value);
  };
  constexpr const char* positive = "above 0";
  constexpr const char* not_negative = "0 or more";
  constexpr const char* share = "above 0 and at most 1";
  constexpr const char* one_or_more = "1 or more";
  return {
      {"t_sync_s", config.t_sync_s, 0, false, unbounded, positive},
      {"admission_tolerance", config.admission_tolerance, 0, true, unbounded, not_negative},
      {"round_timer_s", config.round_timer_s, 0, false, unbounded, positive},
      {"quorum", real(config.quorum), 1, true, unbounded, one_or_more},
      {"staleness_max", real(config.staleness_max), -1, true, unbounded,
       "0 or more, or -1 for no cap"},
      {"theta_s", config.theta_s, 0, true, unbounded, not_negative},
      {"q_init_s", config.q_init_s, 0, true, unbounded, not_negative},
      {"alpha_queue", config.alpha_queue, 0, false, 1, share},
      {"alpha_compute", config.alpha_compute, 0, false, 1, share},
      {"alpha_admission", config.alpha_admission, 0, true, unbounded, not_negative},
      {"warm_up_steps", real(config.warm_up_steps), 1, true, 1e9, "from 1 to 1000000000"},
      {"local_steps", real(config.local_steps), 1, true, 1e9, "from 1 to 1000000000"},
      {"lr_base", config.lr_base, 0, false, unbounded, positive},
      {"walltime_margin_s", config.walltime_margin_s, 0, true, unbounded, not_negative},
      {"segments_per_job", real(config.segments_per_job), 1, true, 1e9, one_or_more},
      {"gamma", config.gamma, 0, false, 1, share},
      {"m_min", config.m_min, 0, false, 1, share},
      {"a_max", config.a_max, 0, false, unbounded, positive},
      {"wait_factor_beta", config.wait_factor_beta, 0, true, unbounded, not_negative},
      {"share_cap", config.share_cap, 0, false, 1, "above 0 and at most 1 (1 switches it off)"},
      {"eta_global", config.eta_global, 0, false, unbounded, positive},
  };
}

}  // namespace

Status PolicyConfig::validate() const {
  for (const Check& check : checks(*this)) {
    if (!check.value) continue;
    const double value = *check.value;
    const bool low = check.least_allowed ? value < check.least : value <= check.least;
    if (!std::isfinite(value) || low || value > check.most)
      return must_be(check.name, check.expected, value);
  }
  if (theta_s && *theta_s >= t_sync_s)
    return Error{Code::usage,
                 "the safety time theta_s of " + number(*theta_s) +
                     " s leaves nothing of a round of t_sync_s = " + number(t_sync_s) + " s",
                 "set theta_s to about a tenth of t_sync_s, or leave it out"};
  return {};
}

PolicyConfig PolicyConfig::effective() const {
  PolicyConfig config = *this;
  const auto fill = [](auto& option, auto value) {
    if (!option) option = value;
  };
  const bool published = is_published();
  fill(config.theta_s, std::min(60.0, t_sync_s / 10));
  fill(config.wait_predictor, published ? WaitPredictorKind::ewma : WaitPredictorKind::log_ewma);
  fill(config.scale_learning_rate, published);
  fill(config.share_cap, published ? 1.0 : share_cap_default);
  if (published)
    fill(config.q_init_s, 2.0);
  else
    fill(config.staleness_max, std::int64_t{4});
  if (policy == PolicyKind::fedavg) {
    fill(config.weights, WeightRule::samples);
    fill(config.staleness_fn, StalenessFunction::constant());
  } else {
    fill(config.weights, published ? WeightRule::steps : WeightRule::participation);
    fill(config.staleness_fn,
         published ? StalenessFunction::constant() : StalenessFunction::harmonic(0.5));
  }
  return config;
}

WaitPredictorConfig PolicyConfig::predictor_config() const {
  const PolicyConfig config = effective();
  return {*config.wait_predictor, config.alpha_queue, config.q_init_s, !is_published()};
}

}  // namespace fedqueue
