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
      {"segments_per_job", real(config.segments_per_job), 0, true, 1e9, "0 or more"},
      {"handover_grace_s", config.handover_grace_s, 0, true, unbounded, not_negative},
      {"proximal", config.proximal, 0, true, unbounded, not_negative},
      {"local_momentum", config.local_momentum, 0, true, 0.999999, "at least 0 and below 1"},
      {"segment_steps", real(config.segment_steps), 1, true, 1e9, "from 1 to 1000000000"},
      {"segment_steps_min", real(config.segment_steps_min), 1, true, 1e9, "from 1 to 1000000000"},
      {"segment_steps_max", real(config.segment_steps_max), 1, true, 1e9, "from 1 to 1000000000"},
      {"sync_share_max", config.sync_share_max, 0, false, 1, share},
      {"speed_momentum", config.speed_momentum, 0, false, 1, share},
      {"latest_time_factor", config.latest_time_factor, 1, true, unbounded, one_or_more},
      {"alpha", config.alpha, 0, false, 1, share},
      {"buffer_size", real(config.buffer_size), 1, true, 1e9, one_or_more},
      {"outer_lr", config.outer_lr, 0, false, unbounded, positive},
      {"outer_momentum", config.outer_momentum, 0, true, 0.999999, "at least 0 and below 1"},
      {"outer_beta2", config.outer_beta2, 0, true, 0.999999999, "at least 0 and below 1"},
      {"outer_tau", config.outer_tau, 0, false, unbounded, positive},
      {"outer_delay", real(config.outer_delay), 1, true, 1e9, one_or_more},
      {"gamma", config.gamma, 0, false, 1, share},
      {"m_min", config.m_min, 0, false, 1, share},
      {"a_max", config.a_max, 0, false, unbounded, positive},
      {"wait_factor_beta", config.wait_factor_beta, 0, true, unbounded, not_negative},
      {"share_cap", config.share_cap, 0, false, 1, "above 0 and at most 1 (1 switches it off)"},
      {"eta_global", config.eta_global, 0, false, unbounded, positive},
      {"norm_factor_max", config.norm_factor_max, 0, true, unbounded, "0 or more (0 is no limit)"},
      {"average_versions", real(config.average_versions), 1, true, static_cast<double>(average_max),
       "from 1 to 1000"},
  };
}

// Options that are fine by themselves and not together.
Status check_combinations(const PolicyConfig& config) {
  if (config.early_submission && *config.early_submission != -1 &&
      !(*config.early_submission >= 0 && *config.early_submission <= 1))
    return must_be("early_submission", "from 0 to 1, or -1 to switch it off",
                   *config.early_submission);
  const PolicyConfig filled = config.effective();
  if (filled.segment_steps_min > filled.segment_steps_max)
    return Error{Code::usage,
                 "segment_steps_min of " + std::to_string(*filled.segment_steps_min) +
                     " is above segment_steps_max of " + std::to_string(*filled.segment_steps_max),
                 "set both, or leave both out"};
  if (filled.weights == WeightRule::nova && !config.is_synchronous() &&
      (config.policy != PolicyKind::fedqueue || config.is_published()))
    return Error{Code::usage,
                 "weights = nova compares the steps of one round, and this policy has no rounds",
                 "use weights = participation, samples or equal"};
  if (config.mixes_models() && filled.outer != ServerOptimizer::none)
    return Error{Code::usage, "an outer step needs deltas, and this policy mixes whole models",
                 config.is_published() ? "use semantics = corrected, or leave `outer` out"
                                       : "set mixing = deltas, or leave `outer` out"};
  if (config.mixes_models() && *filled.control_variates)
    return Error{Code::usage, "control variates need deltas, and this policy mixes whole models",
                 "set mixing = deltas, or leave control_variates out"};
  return {};
}

// The optimiser that a policy is named after, or its default.
ServerOptimizer usual_optimizer(PolicyKind policy) {
  switch (policy) {
    case PolicyKind::fedavgm:
      return ServerOptimizer::momentum;
    case PolicyKind::resident:
      return ServerOptimizer::heloco;
    case PolicyKind::fedadam:
      return ServerOptimizer::adam;
    case PolicyKind::fedyogi:
      return ServerOptimizer::yogi;
    case PolicyKind::fedadagrad:
      return ServerOptimizer::adagrad;
    default:
      return ServerOptimizer::none;
  }
}

double usual_momentum(PolicyKind policy, ServerOptimizer outer) {
  switch (outer) {
    case ServerOptimizer::adam:
    case ServerOptimizer::yogi:
    case ServerOptimizer::adagrad:
    case ServerOptimizer::heloco:
      return 0.9;
    default:
      return policy == PolicyKind::fedavgm ? 0.9 : 0.5;
  }
}

double usual_learning_rate(PolicyKind policy, ServerOptimizer outer, double momentum) {
  switch (outer) {
    case ServerOptimizer::none:
      return 1;
    case ServerOptimizer::adam:
    case ServerOptimizer::yogi:
    case ServerOptimizer::adagrad:
      return 0.1;
    case ServerOptimizer::heloco:
      return 1 / (1 + momentum);
    default:
      return policy == PolicyKind::fedavgm ? 1 : 1 - momentum;
  }
}

WeightRule usual_weights(const PolicyConfig& config) {
  if (config.policy == PolicyKind::fednova) return WeightRule::nova;
  if (config.is_published()) return WeightRule::steps;
  if (config.policy == PolicyKind::resident || config.policy == PolicyKind::fedqueue)
    return WeightRule::participation;
  return WeightRule::samples;
}

StalenessFunction usual_staleness(const PolicyConfig& config) {
  switch (config.policy) {
    case PolicyKind::fedasync:
    case PolicyKind::fedbuff:
    case PolicyKind::fedcompass:
      return StalenessFunction::polynomial(0.5);
    case PolicyKind::resident:
      return StalenessFunction::harmonic(0.5);
    case PolicyKind::fedqueue:
      return config.is_published() ? StalenessFunction::constant()
                                   : StalenessFunction::harmonic(0.5);
    default:
      return StalenessFunction::constant();
  }
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
  return check_combinations(*this);
}

bool PolicyConfig::is_synchronous() const {
  switch (policy) {
    case PolicyKind::fedavg:
    case PolicyKind::fedprox:
    case PolicyKind::fedavgm:
    case PolicyKind::fedadam:
    case PolicyKind::fedyogi:
    case PolicyKind::fedadagrad:
    case PolicyKind::fednova:
    case PolicyKind::scaffold:
      return true;
    default:
      return false;
  }
}

bool PolicyConfig::mixes_models() const {
  return is_published() || ((policy == PolicyKind::fedasync || policy == PolicyKind::fedcompass) &&
                            mixing.value_or(Mixing::models) == Mixing::models);
}

ServerStep PolicyConfig::server_step() const {
  ServerStep step;
  step.optimizer = outer.value_or(ServerOptimizer::none);
  step.learning_rate = outer_lr.value_or(1);
  if (!step.has_state()) return step;  // the rest has no meaning
  step.momentum = outer_momentum.value_or(step.momentum);
  step.beta2 = outer_beta2;
  step.tau = outer_tau;
  step.delay = outer_delay;
  return step;
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
  if (published) fill(config.q_init_s, 2.0);
  const bool resident = policy == PolicyKind::resident;
  const bool compass = policy == PolicyKind::fedcompass;
  if (!published && policy != PolicyKind::fedasync && policy != PolicyKind::fedbuff && !compass)
    fill(config.staleness_max, std::int64_t{4});
  fill(config.weights, usual_weights(config));
  fill(config.staleness_fn, usual_staleness(config));
  fill(config.gamma, resident ? 0.005 : 0.05);
  fill(config.segments_per_job, std::int64_t{resident ? 0 : 1});
  fill(config.early_submission, resident ? 0.5 : -1.0);
  fill(config.proximal, policy == PolicyKind::fedprox ? 0.01 : 0.0);
  fill(config.control_variates, policy == PolicyKind::scaffold);
  fill(config.segment_steps_min, std::int64_t{resident ? 5 : 20});
  fill(config.segment_steps_max, std::int64_t{compass ? 100 : 1000});
  fill(config.alpha, compass ? 0.9 : 0.6);
  fill(config.mixing, Mixing::models);
  fill(config.client_share, compass ? ClientShare::equal : ClientShare::one);
  fill(config.outer, usual_optimizer(policy));
  fill(config.outer_momentum, usual_momentum(policy, *config.outer));
  fill(config.outer_lr, usual_learning_rate(policy, *config.outer, *config.outer_momentum));
  fill(config.eta_global, resident ? 2.0 : 1.0);
  fill(config.norm_factor_max, resident ? 4.0 : 0.0);
  fill(config.average_versions, std::int64_t{resident ? 16 : 1});
  return config;
}

WaitPredictorConfig PolicyConfig::predictor_config() const {
  const PolicyConfig config = effective();
  return {*config.wait_predictor, config.alpha_queue, config.q_init_s, !is_published()};
}

}  // namespace fedqueue
