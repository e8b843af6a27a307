// Everything about a policy that a user can set, under the names the FedQueue reference uses where
// the meaning is the same.
//
// An absent optional takes the default of the policy and its semantics; `effective()` fills them
// in. Values given explicitly are always honoured, so that single corrections can be ablated.
//
// Thread safety: a value type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/optimizer/server_step.h"
#include "aggregation/queue/wait_predictor.h"
#include "aggregation/weighting/base_weights.h"
#include "aggregation/weighting/staleness.h"
#include "core/base/result.h"

namespace fedqueue {

enum class PolicyKind {
  fedavg,
  fedprox,
  fedavgm,
  fedadam,
  fedyogi,
  fedadagrad,
  fednova,
  scaffold,
  fedasync,
  fedbuff,
  fedcompass,
  fedqueue,
  resident
};
// `published`: the arithmetic of the reference, with its crashes and hangs mended and nothing else.
// `corrected`: the rules this project recommends.
enum class Semantics { published, corrected };
enum class WeightRule { participation, samples, steps, equal, nova };
// What an arriving update is: a model to be mixed with the current one, or a delta to be added.
enum class Mixing { models, deltas };
// A further factor of each arrival: 1, 1/K, or the facility's share of all samples.
enum class ClientShare { one, equal, samples };

inline constexpr std::int64_t average_max = 1000;  // versions in one mean

struct PolicyConfig {
  PolicyKind policy = PolicyKind::fedqueue;
  Semantics semantics = Semantics::corrected;  // matters to fedqueue alone

  // Rounds.
  double t_sync_s = 3600;
  double admission_tolerance = 0.15;  // the round's timer is (1 + tolerance)·t_sync
  // Set: instead of the above. Absent: no timer, but under fedqueue.
  std::optional<double> round_timer_s;
  std::int64_t quorum = 1;  // updates that a round needs at least
  // −1: no cap. Absent: 4, and no cap under policies as their authors published them (fedqueue
  // published, fedasync, fedbuff, fedcompass). Counted in versions, and for policies that publish
  // on arrival in versions per active facility.
  std::optional<std::int64_t> staleness_max;

  // Planning.
  // Safety time (δ in the paper); absent: 60, or a tenth of t_sync if that is less.
  std::optional<double> theta_s;
  std::optional<double> q_init_s;  // published: 2; otherwise unknown until observed
  double alpha_queue = 0.5;        // weight of the newest wait (also `beta_queue`)
  std::optional<WaitPredictorKind> wait_predictor;  // published: ewma; otherwise log_ewma
  double alpha_compute = 0.5;                       // weight of the newest step time
  double alpha_admission = 0.2;                     // D = q^ + alpha_admission·t_sync
  std::int64_t warm_up_steps = 20;                  // first round's steps, and the least ever
  std::int64_t local_steps = 100;  // of every segment where the policy does not plan them
  double lr_base = 0.01;
  std::optional<bool> scale_learning_rate;  // published: on; otherwise off
  // Left at the end of a job for the upload; absent: 60, or a tenth of the limit if that is less.
  std::optional<double> walltime_margin_s;
  // Segments that one job trains; 0: until its time limit. Absent: 1; resident: 0.
  std::optional<std::int64_t> segments_per_job;
  // The next job is submitted when this share of its predecessor's time limit is over; 0: when the
  // predecessor starts; −1: when it has ended. Absent: −1; resident: 0.5.
  std::optional<double> early_submission;
  double handover_grace_s = 120;  // in which a job that handed over may still deliver

  // Clients.
  std::optional<double> proximal;        // μ of the proximal term. fedprox: 0.01; otherwise 0
  double local_momentum = 0;             // of the clients' optimiser, for the weights of `nova`
  std::optional<bool> control_variates;  // scaffold: on; otherwise off

  // Segments of a resident job, and of fedcompass.
  std::int64_t segment_steps = 10;                // while the cost of a sync is unknown
  std::optional<std::int64_t> segment_steps_min;  // resident: 5; otherwise 20
  std::optional<std::int64_t> segment_steps_max;  // fedcompass: 100; resident: 1000
  double sync_share_max = 0.1;                    // of a segment's time, for a sync
  double speed_momentum = 0.9;                    // fedcompass: weight of the newest pace
  double latest_time_factor = 1.5;                // fedcompass: λ

  // Arrivals.
  std::optional<double> alpha;              // fedasync: 0.6; fedcompass: 0.9
  std::optional<Mixing> mixing;             // models
  std::optional<ClientShare> client_share;  // fedasync: one; fedcompass: equal
  // fedbuff: updates that make a version. Absent: 10, or all facilities if they are fewer.
  std::optional<std::int64_t> buffer_size;

  // The server's step (server_step.h). The named policies set the optimiser they are named after;
  // absent elsewhere: none, and heloco under resident.
  std::optional<ServerOptimizer> outer;
  // Absent: 1 without an optimiser and for fedavgm, 0.1 for adam, yogi and adagrad; otherwise what
  // makes the sum of all steps that one delta causes equal to that delta: 1 − m, for heloco
  // 1/(1 + m).
  std::optional<double> outer_lr;
  std::optional<double> outer_momentum;  // adam, yogi, adagrad, heloco and fedavgm: 0.9; else 0.5
  double outer_beta2 = 0.99;
  double outer_tau = 1e-3;
  std::int64_t outer_delay = 10;

  // Weights.
  // resident and fedqueue: participation (published: steps); fednova: nova; otherwise samples.
  std::optional<WeightRule> weights;
  // resident and fedqueue: harmonic 0.5 (published: constant); fedasync, fedbuff and fedcompass:
  // polynomial 0.5; otherwise constant.
  std::optional<StalenessFunction> staleness_fn;
  // Weight of the newest round in the participation; resident: of the newest segment, 0.005, so
  // that it remembers longer than a job waits; otherwise 0.05.
  std::optional<double> gamma;
  double m_min = 0.1;
  double a_max = 2;
  WaitFactor wait_factor = WaitFactor::none;
  double wait_factor_beta = 0.5;
  std::optional<double> share_cap;  // published: off (1); otherwise share_cap_default
  // η_g, the server's step on the weighted sum. Absent: 1; resident: 2, since a short segment moves
  // a model less far than its gradients would bear.
  std::optional<double> eta_global;

  // An update that is longer per local step than this many times the median of the newest ones is
  // scaled down to that, so that one facility whose training runs away does not take the model with
  // it. 0: no limit. Absent: 0; resident: 4.
  std::optional<double> norm_factor_max;

  // Newest versions whose mean is exported and judged (LAWA). Absent: 1; resident: 16, since each
  // of its versions leans to the facility that came last. Training never sees the mean.
  std::optional<std::int64_t> average_versions;

  [[nodiscard]] bool is_published() const {
    return policy == PolicyKind::fedqueue && semantics == Semantics::published;
  }

  // FedAvg and its relatives: rounds that wait for everybody.
  [[nodiscard]] bool is_synchronous() const;
  // The server's step. REQUIRES: effective().
  [[nodiscard]] ServerStep server_step() const;

  // Whether whole models are averaged, base + delta: then a base must be there when its update
  // counts.
  [[nodiscard]] bool mixes_models() const;

  // One sentence per mistake, the first that is found.
  [[nodiscard]] Status validate() const;

  // The same with every optional filled in whose default is a value; what stays absent
  // (`staleness_max`, `q_init_s`, `round_timer_s`, `walltime_margin_s`) means no cap, unknown, no
  // timer, and as said above.
  [[nodiscard]] PolicyConfig effective() const;

  // For one facility. The engine may replace q_init_s by the scheduler's own estimate.
  [[nodiscard]] WaitPredictorConfig predictor_config() const;

  // Sets one option from text; an unknown name names the nearest. Accepts the reference's names as
  // well (`t_sync`, `theta`, `q_init`, `beta_queue`, `safety_buffer`).
  [[nodiscard]] Status set(std::string_view name, std::string_view value);

  // Name and value of every option as `set` reads them, absent ones left out.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> options() const;
};

[[nodiscard]] Result<PolicyKind> parse_policy_kind(std::string_view text);
[[nodiscard]] Result<Mixing> parse_mixing(std::string_view text);
[[nodiscard]] Result<ClientShare> parse_client_share(std::string_view text);
[[nodiscard]] std::string_view mixing_name(Mixing mixing);
[[nodiscard]] std::string_view client_share_name(ClientShare share);
[[nodiscard]] std::vector<std::string> policy_names();
[[nodiscard]] Result<Semantics> parse_semantics(std::string_view text);
[[nodiscard]] Result<WeightRule> parse_weight_rule(std::string_view text);
[[nodiscard]] std::string_view policy_kind_name(PolicyKind kind);
[[nodiscard]] std::string_view semantics_name(Semantics semantics);
[[nodiscard]] std::string_view weight_rule_name(WeightRule rule);

}  // namespace fedqueue
