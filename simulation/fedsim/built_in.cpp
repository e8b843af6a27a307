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
tune.lr_base = 0.1, 0.2, 0.4
tune.t_sync = 10, 5, 20

[policy.fedavg]
role = baseline
policy = fedavg
tune.lr_base = 0.1, 0.2, 0.05
tune.local_steps = 50, 100, 25

[policy.fedasync]
role = baseline
policy = fedasync
tune.lr_base = 0.1, 0.2, 0.05
tune.local_steps = 50, 100, 25

[policy.fedbuff]
role = baseline
policy = fedbuff
tune.lr_base = 0.1, 0.2, 0.05
tune.local_steps = 50, 100, 25
tune.buffer_size = 2, 4

[policy.fedcompass]
role = baseline
policy = fedcompass
tune.lr_base = 0.1, 0.2, 0.05
tune.segment_steps_max = 100, 50, 200
)";

// What is ours, and baselines that are given the same: the whole allocation for many segments, the
// next job submitted at half of one's time limit, and an outer optimiser where deltas are added.
constexpr const char* kResidentPolicies = R"(
[policy.resident]
role = ours
policy = resident
tune.lr_base = 0.1, 0.2, 0.05
tune.early_submission = 0.5, 0.75, 0.25
)";

constexpr const char* kEqualPolicies = R"(
[policy.fedavg-resident]
role = equal
policy = fedavg
segments_per_job = 0
early_submission = 0.5
outer = momentum
tune.lr_base = 0.1, 0.2, 0.05
tune.local_steps = 40, 20, 80

[policy.fedasync-resident]
role = equal
policy = fedasync
mixing = deltas
segments_per_job = 0
early_submission = 0.5
outer = momentum
tune.lr_base = 0.1, 0.2, 0.05
tune.local_steps = 40, 20, 80

[policy.fedbuff-resident]
role = equal
policy = fedbuff
segments_per_job = 0
early_submission = 0.5
outer = momentum
tune.lr_base = 0.1, 0.2, 0.05
tune.local_steps = 40, 20, 80
tune.buffer_size = 2, 4
)";

const std::string kQuick = std::string(
                               R"(# Minutes on two cores: a calm and a wild queue, three seeds.
[experiment]
name = quick
seeds = 3
tuning_seeds = 1
tuning_budget = 3

[defaults]
world = lognormal
facilities = 4
alpha = 0.5
step_seconds = 0.2
job_time_limit = 40
horizon = 160
evaluation_interval = 2
evaluation_samples = 1000
target = 0.78
targets_shown = 0.7

[setting.calm]
queue_mean = 0.9
queue_sigma = 0.4

[setting.wild]
queue_mean = 4
queue_sigma = 1.5
alpha = 0.3
)") + kPublishedPolicies + kResidentPolicies;

const std::string kPaper =
    std::string(
        R"(# The setting of the FedQueue paper's controlled simulation: four facilities, Dirichlet 0.5,
# log-normal waits, rounds of 10 s.
[experiment]
name = paper
seeds = 10
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

[setting.rho-2-sigma-0-4]
queue_mean = 2
queue_sigma = 0.4

[setting.rho-4-sigma-0-4]
queue_mean = 4
queue_sigma = 0.4

[setting.rho-4-sigma-1]
queue_mean = 4
queue_sigma = 1
)") +
    kPublishedPolicies;

const std::string kVariance =
    std::string(
        R"(# Waits of high variance, more uneven data, and time limits of 1, 4 and 12 rounds.
[experiment]
name = variance
seeds = 10
tuning_seeds = 2
tuning_budget = 6

[defaults]
world = lognormal
facilities = 4
alpha = 0.3
queue_mean = 4
queue_sigma = 1.5
step_seconds = 0.2
job_time_limit = 40
horizon = 300
evaluation_interval = 2
target = 0.8
targets_shown = 0.7, 0.75, 0.83

[setting.rho-4-sigma-1-5]
queue_sigma = 1.5

[setting.rho-4-sigma-1]
queue_sigma = 1

[setting.rho-2-sigma-1-5]
queue_mean = 2

[setting.rho-4-sigma-1-5-short]
job_time_limit = 10

[setting.rho-4-sigma-1-5-long]
job_time_limit = 120
)") +
    kPublishedPolicies + kResidentPolicies + kEqualPolicies;

const std::string kSites =
    std::string(
        R"(# Four simulated sites of 64 nodes, busy with other people's jobs, in which ours really queue.
# One virtual second is 100 modelled ones. Facilities differ in speed, and jobs fail now and then.
[experiment]
name = sites
seeds = 10
tuning_seeds = 2
tuning_budget = 6

[defaults]
world = site
facilities = 4
alpha = 0.3
site_nodes = 64
job_nodes = 4
site_load = 0.85
time_scale = 0.01
site_warm_up = 3000
step_seconds = 0.2, 0.2, 0.3, 0.4
job_time_limit = 40
horizon = 400
evaluation_interval = 2
target = 0.8
targets_shown = 0.7, 0.75

[setting.busy]

[setting.busier]
site_load = 0.95

[setting.one-job-at-a-time]
early_submission = false

[setting.failures]
failure_rate = 0.1
)") +
    kPublishedPolicies + kResidentPolicies + kEqualPolicies;

}  // namespace

const std::vector<BuiltInExperiment>& built_in_experiments() {
  static const std::vector<BuiltInExperiment> experiments = {
      {"quick", "a calm and a wild queue, three seeds; minutes", kQuick},
      {"paper", "the published setting: FedQueue and its baselines", kPaper},
      {"variance", "high variance of waits: resident segments and all others", kVariance},
      {"sites", "simulated sites with backfill, failures and limits", kSites}};
  return experiments;
}

}  // namespace fedqueue
