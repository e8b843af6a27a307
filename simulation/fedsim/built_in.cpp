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

const std::string kAblation = R"(# Resident with one thing changed at a time, untuned.
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

[policy.resident]
role = ours
policy = resident
lr_base = 0.2

[policy.submitted-late]
role = equal
policy = resident
lr_base = 0.2
early_submission = -1

[policy.submitted-at-start]
role = equal
policy = resident
lr_base = 0.2
early_submission = 0

[policy.one-segment-a-job]
role = equal
policy = resident
lr_base = 0.2
segments_per_job = 1
segment_steps_min = 50

[policy.longer-segments]
role = equal
policy = resident
lr_base = 0.2
segment_steps_min = 20

[policy.step-1]
role = equal
policy = resident
lr_base = 0.2
eta_global = 1

[policy.no-outer-step]
role = equal
policy = resident
lr_base = 0.2
outer = none

[policy.outer-momentum]
role = equal
policy = resident
lr_base = 0.2
outer = momentum

[policy.outer-nesterov]
role = equal
policy = resident
lr_base = 0.2
outer = nesterov

[policy.outer-delayed-nesterov]
role = equal
policy = resident
lr_base = 0.2
outer = delayed_nesterov

[policy.control-variates]
role = equal
policy = resident
lr_base = 0.2
control_variates = true

[policy.newest-version]
role = equal
policy = resident
lr_base = 0.2
average_versions = 1

[policy.data-shares]
role = equal
policy = resident
lr_base = 0.2
weights = samples

[policy.constant-staleness]
role = equal
policy = resident
lr_base = 0.2
staleness_fn = constant

[policy.staleness-cap-1]
role = equal
policy = resident
lr_base = 0.2
staleness_max = 1

[policy.short-memory]
role = equal
policy = resident
lr_base = 0.2
gamma = 0.05
)";

const std::string kRounds = R"(# FedQueue as corrected with one thing changed at a time, untuned.
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

[policy.corrected]
role = ours
policy = fedqueue
t_sync = 20
lr_base = 0.2

[policy.published]
role = equal
policy = fedqueue
semantics = published
t_sync = 20
theta = 2
warm_up_steps = 10
staleness_fn = harmonic:0.5
lr_base = 0.2

[policy.many-segments]
role = equal
policy = fedqueue
t_sync = 20
lr_base = 0.2
segments_per_job = 0

[policy.submitted-early]
role = equal
policy = fedqueue
t_sync = 20
lr_base = 0.2
early_submission = 0.5

[policy.data-shares]
role = equal
policy = fedqueue
t_sync = 20
lr_base = 0.2
weights = samples

[policy.scaled-rate]
role = equal
policy = fedqueue
t_sync = 20
lr_base = 0.2
scale_learning_rate = true

[policy.outer-momentum]
role = equal
policy = fedqueue
t_sync = 20
lr_base = 0.2
outer = momentum

[policy.wait-factor]
role = equal
policy = fedqueue
t_sync = 20
lr_base = 0.2
wait_factor = harmonic

[policy.ewma]
role = equal
policy = fedqueue
t_sync = 20
lr_base = 0.2
wait_predictor = ewma

[policy.staleness-cap-1]
role = equal
policy = fedqueue
t_sync = 20
lr_base = 0.2
staleness_max = 1

[policy.mean-of-4]
role = equal
policy = fedqueue
t_sync = 20
lr_base = 0.2
average_versions = 4
)";

}  // namespace

const std::vector<BuiltInExperiment>& built_in_experiments() {
  static const std::vector<BuiltInExperiment> experiments = {
      {"quick", "a calm and a wild queue, five seeds; minutes", kQuick},
      {"paper", "the published setting: FedQueue and its baselines", kPaper},
      {"variance", "high variance of waits: resident segments and all others", kVariance},
      {"sites", "simulated sites with backfill, failures and limits", kSites},
      {"ablation", "resident with one thing changed at a time", kAblation},
      {"rounds", "FedQueue in rounds with one thing changed at a time", kRounds}};
  return experiments;
}

}  // namespace fedqueue
