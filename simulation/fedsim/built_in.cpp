#include "simulation/fedsim/commands.h"

namespace fedqueue {
namespace {

// Policies as their authors published them: one job per round or update, submitted when the last
// one has ended. Every one may try the same number of choices. Times are seconds; steps take
// 0.2 s, so that 50 fit in a round of 10 s.
constexpr const char* kPublishedPolicies = R"(
[policy.fedqueue-published]
role = published
policy = fedqueue
semantics = published
theta = 2
q_init = 2
warm_up_steps = 10
staleness_fn = harmonic:0.5
tune.lr_base = 0.2, 0.1
tune.t_sync = 10, 20, 40

[policy.fedavg]
role = baseline
policy = fedavg
tune.lr_base = 0.2, 0.1
tune.local_steps = 50, 100, 200

[policy.fedasync]
role = baseline
policy = fedasync
tune.lr_base = 0.2, 0.1
tune.local_steps = 50, 100, 200

[policy.fedbuff]
role = baseline
policy = fedbuff
tune.lr_base = 0.2, 0.1
tune.local_steps = 50, 100, 200
tune.buffer_size = 2, 4

[policy.fedcompass]
role = baseline
policy = fedcompass
tune.lr_base = 0.2, 0.1
tune.segment_steps_max = 100, 50, 200
)";

// What is ours, and baselines that are given the same: the whole allocation for many segments, the
// next job submitted at half of one's time limit, a step of the server, and the mean of the newest
// versions.
constexpr const char* kResidentPolicy = R"(
[policy.resident]
role = ours
policy = resident
tune.lr_base = 0.2, 0.1
tune.eta_global = 2, 1
tune.average_versions = 16, 32
)";

constexpr const char* kEqualPolicies = R"(
[policy.fedasync-resident]
role = equal
policy = fedasync
mixing = deltas
segments_per_job = 0
early_submission = 0.5
average_versions = 16
tune.lr_base = 0.2, 0.1
tune.eta_global = 1, 2
tune.local_steps = 20, 10
tune.outer = none, heloco

[policy.fedbuff-resident]
role = equal
policy = fedbuff
segments_per_job = 0
early_submission = 0.5
average_versions = 16
local_steps = 10
tune.lr_base = 0.2, 0.1
tune.eta_global = 1, 2
tune.outer = none, heloco
tune.buffer_size = 2, 4
)";

struct Variant {
  const char* name;
  const char* options;  // on top of the base's
};

// The base as ours, and every variant as one to compare it with.
std::string changed_one_at_a_time(const std::string& name, const std::string& base,
                                  const std::vector<Variant>& variants) {
  std::string text = "\n[policy." + name + "]\nrole = ours\n" + base;
  for (const Variant& variant : variants)
    text += std::string("\n[policy.") + variant.name + "]\nrole = equal\n" + base +
            variant.options + "\n";
  return text;
}

const std::string kQuick = std::string(
                               R"(# Minutes on two cores: a calm and a wild queue, five seeds.
[experiment]
name = quick
seeds = 5
first_seed = 101
tuning_seeds = 1
tuning_budget = 3

[defaults]
world = lognormal
facilities = 4
alpha = 0.5
step_seconds = 0.2
job_time_limit = 40
horizon = 400
evaluation_interval = 2
evaluation_samples = 1000
target = 0.8
targets_shown = 0.7

[setting.calm]
queue_mean = 0.9
queue_sigma = 0.4

[setting.wild]
queue_mean = 10
queue_sigma = 1.5
alpha = 0.3
)") + kPublishedPolicies + kResidentPolicy;

const std::string kPaper =
    std::string(
        R"(# The setting of the FedQueue paper's controlled simulation: four facilities, Dirichlet 0.5,
# log-normal waits that are short against rounds of 10 s.
[experiment]
name = paper
seeds = 10
first_seed = 101
tuning_seeds = 2
tuning_budget = 6

[defaults]
world = lognormal
facilities = 4
alpha = 0.5
step_seconds = 0.2
job_time_limit = 40
horizon = 300
evaluation_interval = 2
target = 0.8
targets_shown = 0.7, 0.75, 0.83

[setting.rho-0-9-sigma-0-4]
queue_mean = 0.9
queue_sigma = 0.4

[setting.rho-4-sigma-0-4]
queue_mean = 4
queue_sigma = 0.4

[setting.rho-4-sigma-1-2]
queue_mean = 4
queue_sigma = 1.2
)") +
    kPublishedPolicies + kResidentPolicy;

const std::string kVariance =
    std::string(
        R"(# Waits of high variance, from 0.4 to 4 rounds of 10 s, uneven data, time limits of 1, 4 and 12
# rounds, 4 and 8 facilities, failing jobs.
[experiment]
name = variance
seeds = 10
first_seed = 101
tuning_seeds = 2
tuning_budget = 6

[defaults]
world = lognormal
facilities = 4
alpha = 0.5
queue_mean = 10
queue_sigma = 1.5
step_seconds = 0.2
job_time_limit = 40
horizon = 600
evaluation_interval = 2
target = 0.8
targets_shown = 0.7, 0.75, 0.83

[setting.rho-4-sigma-1]
queue_mean = 4
queue_sigma = 1

[setting.rho-4-sigma-1-5-alpha-0-1]
queue_mean = 4
alpha = 0.1

[setting.rho-10-sigma-1-alpha-0-1]
queue_sigma = 1
alpha = 0.1

[setting.rho-10-short]
job_time_limit = 10

[setting.rho-10-failures]
failure_rate = 0.1

[setting.rho-10-eight-facilities]
facilities = 8

[setting.rho-40-long]
queue_mean = 40
job_time_limit = 120
)") +
    kPublishedPolicies + kResidentPolicy + kEqualPolicies;

const std::string kSites =
    std::string(
        R"(# Four simulated sites of 64 nodes, busy with other people's jobs, in which ours really queue.
# Ten virtual seconds are one modelled hour: a round. Facilities differ in speed.
[experiment]
name = sites
seeds = 10
first_seed = 101
tuning_seeds = 2
tuning_budget = 6

[defaults]
world = site
facilities = 4
alpha = 0.3
site_nodes = 64
job_nodes = 4
site_load = 0.95
time_scale = 0.0028
site_warm_up = 800
step_seconds = 0.2, 0.2, 0.3, 0.4
job_time_limit = 40
horizon = 800
evaluation_interval = 2
target = 0.8
targets_shown = 0.7, 0.75

[setting.busy]

[setting.wide-jobs]
job_nodes = 16
site_load = 0.85

[setting.short-limit]
job_time_limit = 10

[setting.long-limit]
job_time_limit = 120

[setting.one-job-at-a-time]
early_submission = false

[setting.failures]
failure_rate = 0.1
)") +
    kPublishedPolicies + kResidentPolicy + kEqualPolicies;

const std::string kReplay =
    std::string(
        R"(# Waits of a log: four facilities in which a job waits as long as the log's jobs did, with rounds of
# an hour and of twelve, and a site that is busy with the log's jobs.
[experiment]
name = replay
seeds = 10
first_seed = 101
tuning_seeds = 1
tuning_budget = 3

[defaults]
world = replay
trace = )") +
    kNoTrace +
    R"(
facilities = 4
alpha = 0.3
step_seconds = 0.2
job_time_limit = 40
horizon = 800
evaluation_interval = 2
target = 0.8
targets_shown = 0.7, 0.75

[setting.rounds-of-1-h]
time_scale = 0.0028

[setting.rounds-of-12-h]
time_scale = 0.00023

[setting.site]
world = site
background = trace
job_nodes = 8
time_scale = 0.0028
site_warm_up = 800
)" + kPublishedPolicies +
    kResidentPolicy + kEqualPolicies;

const std::string kModels =
    std::string(
        R"(# Larger models: the convolutional network of the published setting, and LeNet-5 where waits vary.
# A step costs 10 and 100 times that of the mlp, so nothing is tuned.
[experiment]
name = models
seeds = 5
first_seed = 101
tuning_seeds = 0
tuning_budget = 1

[defaults]
world = lognormal
facilities = 4
alpha = 0.5
queue_mean = 10
queue_sigma = 1.5
step_seconds = 0.2
job_time_limit = 40
horizon = 300
evaluation_interval = 4
evaluation_samples = 1000
target = 0.75
targets_shown = 0.7

[setting.lenet5-rho-4-alpha-0-1]
model = lenet5
queue_mean = 4
alpha = 0.1

[setting.lenet5-rho-10]
model = lenet5

[setting.cnn-rho-0-9-sigma-0-4]
model = cnn
queue_mean = 0.9
queue_sigma = 0.4
horizon = 100
)") +
    kPublishedPolicies + kResidentPolicy + kEqualPolicies;

const std::string kAblation =
    std::string(R"(# Resident with one thing changed at a time, untuned.
[experiment]
name = ablation
seeds = 10
first_seed = 201
tuning_seeds = 0
tuning_budget = 1

[defaults]
world = lognormal
facilities = 4
alpha = 0.3
queue_mean = 10
queue_sigma = 1.5
step_seconds = 0.2
job_time_limit = 40
horizon = 200
evaluation_interval = 2
target = 0.8
targets_shown = 0.7, 0.75

[setting.wild]

[setting.mild]
queue_mean = 4
queue_sigma = 1
)") +
    changed_one_at_a_time("resident", R"(policy = resident
lr_base = 0.2
)",
                          {
                              {"submitted-late", "early_submission = -1"},
                              {"submitted-at-start", "early_submission = 0"},
                              {"one-segment-a-job", "segments_per_job = 1\nsegment_steps_min = 50"},
                              {"longer-segments", "segment_steps_min = 20"},
                              {"step-1", "eta_global = 1"},
                              {"no-outer-step", "outer = none"},
                              {"outer-momentum", "outer = momentum"},
                              {"outer-nesterov", "outer = nesterov"},
                              {"outer-delayed-nesterov", "outer = delayed_nesterov"},
                              {"control-variates", "control_variates = true"},
                              {"newest-version", "average_versions = 1"},
                              {"data-shares", "weights = samples"},
                              {"constant-staleness", "staleness_fn = constant"},
                              {"staleness-cap-1", "staleness_max = 1"},
                              {"short-memory", "gamma = 0.05"},
                              {"no-norm-limit", "norm_factor_max = 0"},
                          });

const std::string kRounds =
    std::string(R"(# FedQueue as corrected with one thing changed at a time, untuned.
[experiment]
name = rounds
seeds = 10
tuning_seeds = 0
tuning_budget = 1

[defaults]
world = lognormal
facilities = 4
alpha = 0.3
queue_mean = 4
queue_sigma = 1
step_seconds = 0.2
job_time_limit = 40
horizon = 300
evaluation_interval = 2
target = 0.75
targets_shown = 0.7, 0.8

[setting.mild]

[setting.wild]
queue_mean = 10
queue_sigma = 1.5
)") +
    changed_one_at_a_time(
        "corrected", R"(policy = fedqueue
t_sync = 20
lr_base = 0.2
)",
        {
            {"published",
             "semantics = published\ntheta = 2\nwarm_up_steps = 10\nstaleness_fn = harmonic:0.5"},
            {"many-segments", "segments_per_job = 0"},
            {"submitted-early", "early_submission = 0.5"},
            {"data-shares", "weights = samples"},
            {"scaled-rate", "scale_learning_rate = true"},
            {"outer-momentum", "outer = momentum"},
            {"wait-factor", "wait_factor = harmonic"},
            {"ewma", "wait_predictor = ewma"},
            {"staleness-cap-1", "staleness_max = 1"},
            {"mean-of-4", "average_versions = 4"},
        });

}  // namespace

const std::vector<BuiltInExperiment>& built_in_experiments() {
  static const std::vector<BuiltInExperiment> experiments = {
      {"quick", "a calm and a wild queue, five seeds; minutes", kQuick},
      {"paper", "the published setting: FedQueue and its baselines", kPaper},
      {"variance", "high variance of waits: resident segments and all others", kVariance},
      {"sites", "simulated sites with backfill, failures and limits", kSites},
      {"replay", "waits and jobs of a log that is given with --trace", kReplay},
      {"models", "lenet5 where waits vary, cnn in the published setting; untuned", kModels},
      {"ablation", "resident with one thing changed at a time", kAblation},
      {"rounds", "FedQueue in rounds with one thing changed at a time", kRounds}};
  return experiments;
}

}  // namespace fedqueue
