// The text form of a PolicyConfig: one table of names for reading and for writing.
#include <functional>
#include <sstream>

#include "aggregation/policy/policy_config.h"
#include "core/base/text.h"

namespace fedqueue {
namespace {

struct Option {
  std::string name;
  std::function<Status(PolicyConfig&, std::string_view)> read;
  std::function<std::optional<std::string>(const PolicyConfig&)> write;
};

Error bad_value(std::string_view expected, std::string_view value) {
  return Error{Code::usage,
               "expected " + std::string(expected) + ", got '" + std::string(value) + "'", ""};
}

Result<double> read_as(std::string_view value, const double*) {
  const std::optional<double> number = parse_real(value);
  if (!number) return bad_value("a number", value);
  return *number;
}

Result<std::int64_t> read_as(std::string_view value, const std::int64_t*) {
  const std::optional<std::int64_t> number = parse_integer(value);
  if (!number) return bad_value("a whole number", value);
  return *number;
}

Result<bool> read_as(std::string_view value, const bool*) {
  if (value == "true" || value == "on" || value == "yes" || value == "1") return true;
  if (value == "false" || value == "off" || value == "no" || value == "0") return false;
  return bad_value("true or false", value);
}

Result<PolicyKind> read_as(std::string_view value, const PolicyKind*) {
  return parse_policy_kind(value);
}
Result<Semantics> read_as(std::string_view value, const Semantics*) {
  return parse_semantics(value);
}
Result<Mixing> read_as(std::string_view value, const Mixing*) { return parse_mixing(value); }
Result<ClientShare> read_as(std::string_view value, const ClientShare*) {
  return parse_client_share(value);
}
Result<ServerOptimizer> read_as(std::string_view value, const ServerOptimizer*) {
  return parse_server_optimizer(value);
}
Result<WeightRule> read_as(std::string_view value, const WeightRule*) {
  return parse_weight_rule(value);
}
Result<WaitFactor> read_as(std::string_view value, const WaitFactor*) {
  return parse_wait_factor(value);
}
Result<WaitPredictorKind> read_as(std::string_view value, const WaitPredictorKind*) {
  return parse_wait_predictor_kind(value);
}
Result<StalenessFunction> read_as(std::string_view value, const StalenessFunction*) {
  return StalenessFunction::parse(value);
}

std::string written(double value) {
  // The shortest text that reads back as the same number.
  for (int digits = 6;; ++digits) {
    std::ostringstream out;
    out.precision(digits);
    out << value;
    if (digits >= 17 || parse_real(out.str()) == value) return out.str();
  }
}
std::string written(std::int64_t value) { return std::to_string(value); }
std::string written(bool value) { return value ? "true" : "false"; }
std::string written(PolicyKind value) { return std::string(policy_kind_name(value)); }
std::string written(Semantics value) { return std::string(semantics_name(value)); }
std::string written(WeightRule value) { return std::string(weight_rule_name(value)); }
std::string written(Mixing value) { return std::string(mixing_name(value)); }
std::string written(ClientShare value) { return std::string(client_share_name(value)); }
std::string written(ServerOptimizer value) { return std::string(server_optimizer_name(value)); }
std::string written(WaitFactor value) { return std::string(wait_factor_name(value)); }
std::string written(WaitPredictorKind value) {
  return std::string(wait_predictor_kind_name(value));
}
std::string written(const StalenessFunction& value) { return value.text(); }

template <typename T>
Option option(std::string name, T PolicyConfig::*member) {
  return {std::move(name),
          [member](PolicyConfig& config, std::string_view value) -> Status {
            auto read = read_as(trim(value), static_cast<const T*>(nullptr));
            if (!read) return read.error();
            config.*member = *read;
            return {};
          },
          [member](const PolicyConfig& config) -> std::optional<std::string> {
            return written(config.*member);
          }};
}

template <typename T>
Option option(std::string name, std::optional<T> PolicyConfig::*member) {
  return {std::move(name),
          [member](PolicyConfig& config, std::string_view value) -> Status {
            auto read = read_as(trim(value), static_cast<const T*>(nullptr));
            if (!read) return read.error();
            config.*member = *read;
            return {};
          },
          [member](const PolicyConfig& config) -> std::optional<std::string> {
            if (!(config.*member)) return std::nullopt;
            return written(*(config.*member));
          }};
}

const std::vector<Option>& table() {
  using C = PolicyConfig;
  static const std::vector<Option> options = {
      option("policy", &C::policy),
      option("semantics", &C::semantics),
      option("t_sync_s", &C::t_sync_s),
      option("admission_tolerance", &C::admission_tolerance),
      option("round_timer_s", &C::round_timer_s),
      option("quorum", &C::quorum),
      option("staleness_max", &C::staleness_max),
      option("theta_s", &C::theta_s),
      option("q_init_s", &C::q_init_s),
      option("alpha_queue", &C::alpha_queue),
      option("wait_predictor", &C::wait_predictor),
      option("alpha_compute", &C::alpha_compute),
      option("alpha_admission", &C::alpha_admission),
      option("warm_up_steps", &C::warm_up_steps),
      option("local_steps", &C::local_steps),
      option("lr_base", &C::lr_base),
      option("scale_learning_rate", &C::scale_learning_rate),
      option("walltime_margin_s", &C::walltime_margin_s),
      option("segments_per_job", &C::segments_per_job),
      option("early_submission", &C::early_submission),
      option("handover_grace_s", &C::handover_grace_s),
      option("proximal", &C::proximal),
      option("local_momentum", &C::local_momentum),
      option("control_variates", &C::control_variates),
      option("segment_steps", &C::segment_steps),
      option("segment_steps_min", &C::segment_steps_min),
      option("segment_steps_max", &C::segment_steps_max),
      option("sync_share_max", &C::sync_share_max),
      option("speed_momentum", &C::speed_momentum),
      option("latest_time_factor", &C::latest_time_factor),
      option("alpha", &C::alpha),
      option("mixing", &C::mixing),
      option("client_share", &C::client_share),
      option("buffer_size", &C::buffer_size),
      option("outer", &C::outer),
      option("outer_lr", &C::outer_lr),
      option("outer_momentum", &C::outer_momentum),
      option("outer_beta2", &C::outer_beta2),
      option("outer_tau", &C::outer_tau),
      option("outer_delay", &C::outer_delay),
      option("weights", &C::weights),
      option("staleness_fn", &C::staleness_fn),
      option("gamma", &C::gamma),
      option("m_min", &C::m_min),
      option("a_max", &C::a_max),
      option("wait_factor", &C::wait_factor),
      option("wait_factor_beta", &C::wait_factor_beta),
      option("share_cap", &C::share_cap),
      option("eta_global", &C::eta_global),
      option("norm_factor_max", &C::norm_factor_max),
      option("average_versions", &C::average_versions),
  };
  return options;
}

// The reference's names for options that carry their unit, or another name, here.
std::string_view own_name(std::string_view name) {
  if (name == "t_sync") return "t_sync_s";
  if (name == "theta" || name == "safety_buffer") return "theta_s";
  if (name == "q_init") return "q_init_s";
  if (name == "beta_queue") return "alpha_queue";
  if (name == "round_timer") return "round_timer_s";
  if (name == "walltime_margin") return "walltime_margin_s";
  return name;
}

const std::vector<std::pair<std::string, PolicyKind>>& policy_kinds() {
  static const std::vector<std::pair<std::string, PolicyKind>> kinds = {
      {"fedavg", PolicyKind::fedavg},         {"fedprox", PolicyKind::fedprox},
      {"fedavgm", PolicyKind::fedavgm},       {"fedadam", PolicyKind::fedadam},
      {"fedyogi", PolicyKind::fedyogi},       {"fedadagrad", PolicyKind::fedadagrad},
      {"fednova", PolicyKind::fednova},       {"scaffold", PolicyKind::scaffold},
      {"fedasync", PolicyKind::fedasync},     {"fedbuff", PolicyKind::fedbuff},
      {"fedcompass", PolicyKind::fedcompass}, {"fedqueue", PolicyKind::fedqueue},
      {"resident", PolicyKind::resident}};
  return kinds;
}

template <typename T>
Result<T> one_of(std::string_view what, std::string_view text,
                 const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    names.push_back(name);
  }
  const std::string meant = nearest(text, names);
  return Error{Code::usage, "'" + std::string(text) + "' is not a " + std::string(what),
               meant.empty() ? "use one of " + join(names, ", ") : "did you mean " + meant + "?"};
}

}  // namespace

Status PolicyConfig::set(std::string_view name, std::string_view value) {
  std::vector<std::string> names;
  for (const Option& option : table()) {
    if (option.name == own_name(name)) {
      Status read = option.read(*this, value);
      if (!read) return within("set the policy option " + std::string(name), read.error());
      return {};
    }
    names.push_back(option.name);
  }
  const std::string meant = nearest(name, names);
  return Error{
      Code::usage, "'" + std::string(name) + "' is not a policy option",
      meant.empty() ? "the options are " + join(names, ", ") : "did you mean " + meant + "?"};
}

std::vector<std::pair<std::string, std::string>> PolicyConfig::options() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const Option& option : table())
    if (std::optional<std::string> text = option.write(*this))
      result.emplace_back(option.name, *text);
  return result;
}

Result<PolicyKind> parse_policy_kind(std::string_view text) {
  return one_of<PolicyKind>("policy", text, policy_kinds());
}

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : policy_kinds()) names.push_back(name);
  return names;
}

Result<Mixing> parse_mixing(std::string_view text) {
  return one_of<Mixing>("kind of mixing", text,
                        {{"models", Mixing::models}, {"deltas", Mixing::deltas}});
}

Result<ClientShare> parse_client_share(std::string_view text) {
  return one_of<ClientShare>("client share", text,
                             {{"one", ClientShare::one},
                              {"equal", ClientShare::equal},
                              {"samples", ClientShare::samples}});
}

std::string_view mixing_name(Mixing mixing) {
  return mixing == Mixing::models ? "models" : "deltas";
}

std::string_view client_share_name(ClientShare share) {
  switch (share) {
    case ClientShare::one:
      return "one";
    case ClientShare::equal:
      return "equal";
    case ClientShare::samples:
      return "samples";
  }
  return "";
}

Result<Semantics> parse_semantics(std::string_view text) {
  return one_of<Semantics>(
      "semantics", text,
      {{"published", Semantics::published}, {"corrected", Semantics::corrected}});
}

Result<WeightRule> parse_weight_rule(std::string_view text) {
  return one_of<WeightRule>("weight rule", text,
                            {{"participation", WeightRule::participation},
                             {"samples", WeightRule::samples},
                             {"steps", WeightRule::steps},
                             {"equal", WeightRule::equal},
                             {"nova", WeightRule::nova}});
}

std::string_view policy_kind_name(PolicyKind kind) {
  for (const auto& [name, value] : policy_kinds())
    if (value == kind) return name;
  return "";
}

std::string_view semantics_name(Semantics semantics) {
  return semantics == Semantics::published ? "published" : "corrected";
}

std::string_view weight_rule_name(WeightRule rule) {
  switch (rule) {
    case WeightRule::participation:
      return "participation";
    case WeightRule::samples:
      return "samples";
    case WeightRule::steps:
      return "steps";
    case WeightRule::equal:
      return "equal";
    case WeightRule::nova:
      return "nova";
  }
  return "";
}

}  // namespace fedqueue
