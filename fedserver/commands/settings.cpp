#include "fedserver/commands/settings.h"

#include "core/base/text.h"
#include "fedclient/recipe/training_settings.h"

namespace fedqueue {
namespace {

OptionSpec number(std::string name, std::string built_in, double minimum, double maximum,
                  std::string help) {
  OptionSpec spec;
  spec.name = std::move(name);
  spec.kind = Kind::real;
  spec.built_in = std::move(built_in);
  spec.minimum = minimum;
  spec.maximum = maximum;
  spec.help = std::move(help);
  return spec;
}

OptionSpec count(std::string name, std::string built_in, double minimum, std::string help) {
  OptionSpec spec = number(std::move(name), std::move(built_in), minimum, 1e9, std::move(help));
  spec.kind = Kind::integer;
  return spec;
}

OptionSpec seconds(std::string name, std::string built_in, std::string help) {
  OptionSpec spec = number(std::move(name), std::move(built_in), 0, 1e9, std::move(help));
  spec.kind = Kind::seconds;
  return spec;
}

OptionSpec text(std::string name, std::string built_in, std::string help,
                std::vector<std::string> choices = {}) {
  OptionSpec spec;
  spec.name = std::move(name);
  spec.built_in = std::move(built_in);
  spec.help = std::move(help);
  spec.choices = std::move(choices);
  return spec;
}

OptionSpec flag(std::string name, std::string help) {
  OptionSpec spec;
  spec.name = std::move(name);
  spec.kind = Kind::flag;
  spec.help = std::move(help);
  return spec;
}

std::vector<std::string> outer_names() {
  const std::vector<std::string_view> names = server_optimizer_names();
  return {names.begin(), names.end()};
}

constexpr double any = 1e300;

}  // namespace

RunDirectory run_directory(const Settings& settings) {
  const std::string argument = settings.argument(0);
  return {std::filesystem::path(argument.empty() ? "." : argument)};
}

std::vector<OptionSpec> policy_options() {
  return {
      text("policy", "resident", "The aggregation policy (docs/policies.md).", policy_names()),
      text("semantics", "corrected",
           "FedQueue as published, or with the corrections of docs/policies.md.",
           {"published", "corrected"}),
      seconds("t_sync_s", "3600", "The time a round is planned for (T)."),
      number("admission_tolerance", "0.15", 0, any, "The round's timer is (1 + this) t_sync."),
      seconds("round_timer_s", "", "The round's timer, instead of (1 + tolerance) t_sync."),
      count("quorum", "1", 1, "Updates that a round needs at least."),
      count("staleness_max", "", -1,
            "Older updates are refused; -1: none (published: -1, else 4)."),
      seconds("theta_s", "", "Safety time kept free in a round's budget."),
      seconds("q_init_s", "", "Queue wait assumed before one was seen."),
      number("alpha_queue", "0.5", 0, 1, "Weight of the newest queue wait."),
      text("wait_predictor", "", "How queue waits are predicted.", {"ewma", "log_ewma"}),
      number("alpha_compute", "0.5", 0, 1, "Weight of the newest step time."),
      number("alpha_admission", "0.2", 0, any, "An update is in time up to q + this * t_sync."),
      count("warm_up_steps", "20", 1, "Local steps of the first round, and the least ever."),
      count("local_steps", "100", 1, "Local steps of a segment where the policy plans none."),
      number("lr_base", "0.01", 0, any, "The learning rate."),
      flag("scale_learning_rate",
           "Divide the learning rate by the local steps (published: on; otherwise off)."),
      seconds("walltime_margin_s", "",
              "Left at the end of a job for its upload (60, or limit / 10)."),
      count("segments_per_job", "", 0,
            "Segments that one job trains; 0: until its time limit (resident: 0, else 1)."),
      number("early_submission", "", -1, 1,
             "Submit the next job after this share of its predecessor's time limit; -1: when it "
             "has ended (resident: 0.5, else -1)."),
      seconds("handover_grace_s", "120", "In which a job that handed over may still deliver."),
      number("proximal", "", 0, any, "Strength of the clients' proximal term (fedprox: 0.01)."),
      number("local_momentum", "0", 0, 1,
             "Momentum of the clients' optimiser, for weights = nova."),
      flag("control_variates", "Correct the clients' drift with control variates (scaffold: on)."),
      count("segment_steps", "10", 1, "Local steps of a resident segment before costs are known."),
      count("segment_steps_min", "", 1, "Fewest steps of a segment (resident: 5, fedcompass: 20)."),
      count("segment_steps_max", "", 1, "Most steps (resident: 1000, fedcompass: 100)."),
      number("sync_share_max", "0.1", 0, 1, "Share of a resident segment's time for its exchange."),
      number("speed_momentum", "0.9", 0, 1, "Weight of the newest pace (fedcompass)."),
      number("latest_time_factor", "1.5", 1, any, "How late a member may be (fedcompass)."),
      number("alpha", "", 0, 1, "Weight of an arrival (fedasync: 0.6, fedcompass: 0.9)."),
      text("mixing", "", "What an arrival is (fedasync, fedcompass: models).",
           {"models", "deltas"}),
      text("client_share", "", "A further factor of an arrival (fedcompass: equal, else one).",
           {"one", "equal", "samples"}),
      count("buffer_size", "", 1, "Updates that make a version (fedbuff: 10 or all facilities)."),
      text("outer", "", "The server's optimiser on the weighted sum.", outer_names()),
      number("outer_lr", "", 0, any, "Its learning rate (docs/policies.md)."),
      number("outer_momentum", "", 0, 1, "Its momentum, or beta1."),
      number("outer_beta2", "0.99", 0, 1, "Beta2 of adam and yogi."),
      number("outer_tau", "0.001", 0, any, "Tau of adam, yogi and adagrad."),
      count("outer_delay", "10", 1, "Updates between two steps of delayed_nesterov."),
      text("weights", "", "Weights of the updates.",
           {"participation", "samples", "steps", "equal", "nova"}),
      text("staleness_fn", "",
           "Weight of a stale update: constant, harmonic:0.5, exponential:0.5, …"),
      number("gamma", "", 0, 1,
             "Weight of the newest round in a facility's participation (0.05; resident: 0.005)."),
      number("m_min", "0.1", 0, 1, "The least participation used."),
      number("a_max", "2", 0, any, "The weights of a round sum to this at most."),
      text("wait_factor", "none", "A further factor by queue wait.", {"none", "harmonic"}),
      number("wait_factor_beta", "0.5", 0, any, "Strength of that factor."),
      number("share_cap", "", 0, 1, "The most that one facility weighs; 1: no cap."),
      number("eta_global", "", 0, any, "The server's step on the weighted sum (resident: 2)."),
      number("norm_factor_max", "", 0, any,
             "Scale updates down to this many times the usual length (resident: 4); 0: none."),
      count("average_versions", "", 1,
            "Versions whose mean is exported and judged (resident: 16)."),
  };
}

// Names that the FedQueue reference uses for options which carry their unit or another name here.
std::vector<OptionSpec> reference_names() {
  std::vector<OptionSpec> names = {seconds("t_sync", "", "The same as t_sync_s."),
                                   seconds("theta", "", "The same as theta_s."),
                                   seconds("safety_buffer", "", "The same as theta_s."),
                                   seconds("q_init", "", "The same as q_init_s."),
                                   number("beta_queue", "", 0, 1, "The same as alpha_queue.")};
  for (OptionSpec& name : names) name.shown_in_help = false;
  return names;
}

std::vector<OptionSpec> run_options() {
  const std::vector<OptionSpec> own = {
      text("run", "", "The run's name, [a-z0-9-]+."),
      count("rounds", "0", 0, "The run is finished after so many rounds; 0: no end."),
      seconds("run_deadline_s", "0", "Server uptime after which the run is finished; 0: none."),
      text("listen", "::", "Address to listen on; :: is every address, IPv4 included."),
      count("port", "8443", 0, "Port to listen on; 0: any free one."),
      count("status_port", "0", 0, "Port of the plain status page on loopback; 0: none."),
      seconds("heartbeat_s", "10", "How often a running job reports."),
      seconds("lease_s", "60", "Silence after which a running job counts as lost."),
      seconds("contact_timeout_s", "0",
              "Silence after which a facility is not waited for; 0: 3 t_sync."),
      seconds("plan_retry_s", "0", "How soon a waiting agent asks again; 0: t_sync / 20."),
      seconds("job_time_limit_s", "0", "Time limit asked for every job; 0: the site profile's."),
      count("empty_timers_max", "3", 1,
            "Timers without an update before the run shows as stalled."),
      count("models_kept", "20", 0, "Newest versions kept on disk; 0: all."),
      number("update_norm_max", "0", 0, any, "Updates of a larger norm are refused; 0: none."),
      count("reduce_threads", "0", 0, "Threads of the weighted sum; 0: one for each processor."),
      count("quota_mb", "0", 0, "Disk space for models and updates; 0: what the disk has."),
      seconds("linger_s", "600", "How long a finished run is still served."),
      text("training.*", "", "Settings handed to every trainer, as training.batch_size = 64."),
  };
  return all_of({own, policy_options(), reference_names()});
}

std::vector<OptionSpec> hidden_run_options() {
  std::vector<OptionSpec> options = run_options();
  for (OptionSpec& option : options) option.shown_in_help = false;
  return options;
}

namespace {

// What every trainer is told. A misspelt name would be silently without effect at every facility.
Status read_training(const Settings& settings, EngineConfig& config) {
  for (const std::string& name : settings.names_under("training")) {
    if (Status known = check_training_name(name); !known) return known;
    config.training[name] = settings.text("training." + name);
  }
  const auto effective = config.policy.effective();
  if (*effective.control_variates) {
    // Control variates are estimated from plain steps, and facilities have momentum by default.
    config.training.try_emplace("optimizer", "sgd");
    config.training.try_emplace("momentum", "0");
  }
  const bool nova = effective.weights == WeightRule::nova;
  if (nova) config.training.try_emplace("optimizer", "sgd");
  const Result<TrainingSettings> training = training_settings(config.training);
  if (!training) return training.error();
  if (Status possible = check_training(*training, 1); !possible) return possible;
  const OptimizerSettings& optimizer = training->optimizer;
  if (nova && (optimizer.kind != LocalOptimizer::sgd || optimizer.nesterov)) {
    return Error{Code::usage,
                 "weights = nova compares steps of plain momentum, and training.optimizer is " +
                     std::string(to_text(optimizer.kind)) +
                     (optimizer.nesterov ? " with nesterov" : ""),
                 "Set training.optimizer = sgd without nesterov, or other weights."};
  }
  return *effective.control_variates ? check_controls(*training) : Status();
}

}  // namespace

Result<EngineConfig> engine_config(const Settings& settings) {
  EngineConfig config;
  config.run = settings.text("run");
  if (!is_name(config.run)) {
    return Error{Code::usage, "the run's name '" + config.run + "' is not a name",
                 "Use 1 to 63 of the letters a-z, digits and '-', as run = fashion-mnist."};
  }
  for (const OptionSpec& option : all_of({policy_options(), reference_names()})) {
    if (!settings.has(option.name)) continue;
    if (Status set = config.policy.set(option.name, settings.text_of(option.name)); !set) {
      return set.error();
    }
  }
  // The weights of `nova` undo the momentum that the trainers really use.
  if (!settings.given("local_momentum") && settings.has("training.momentum")) {
    if (Status set = config.policy.set("local_momentum", settings.text("training.momentum"));
        !set) {
      return set.error();
    }
  }
  if (Status valid = config.policy.validate(); !valid) return valid.error();
  config.rounds_max = settings.integer("rounds");
  config.run_deadline_s = settings.real("run_deadline_s");
  config.heartbeat_s = settings.real("heartbeat_s");
  config.lease_s = settings.real("lease_s");
  config.contact_timeout_s = settings.real("contact_timeout_s");
  config.plan_retry_s = settings.real("plan_retry_s");
  config.job_time_limit_s = settings.real("job_time_limit_s");
  config.empty_timers_max = static_cast<int>(settings.integer("empty_timers_max"));
  config.models_kept = settings.integer("models_kept");
  const std::int64_t averaged = *config.policy.effective().average_versions;
  if (config.models_kept != 0 && config.models_kept < averaged) {
    return Error{Code::usage,
                 "models_kept (" + std::to_string(config.models_kept) +
                     ") is less than the versions that are averaged (" + std::to_string(averaged) +
                     ")",
                 "Keep as many at least, or set a smaller average_versions."};
  }
  if (config.heartbeat_s <= 0 || config.lease_s < 2 * config.heartbeat_s) {
    return Error{Code::usage,
                 "lease_s (" + std::to_string(config.lease_s) +
                     ") must be at least twice heartbeat_s (" + std::to_string(config.heartbeat_s) +
                     "), which must be above 0",
                 ""};
  }
  if (Status status = read_training(settings, config); !status) return status.error();
  return config;
}

}  // namespace fedqueue
