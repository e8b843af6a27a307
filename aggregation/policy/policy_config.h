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

#include "aggregation/queue/wait_predictor.h"
#include "aggregation/weighting/base_weights.h"
#include "aggregation/weighting/staleness.h"
#include "core/base/result.h"

namespace fedqueue {

enum class PolicyKind { fedavg, fedqueue };
// `published`: the arithmetic of the reference, with its crashes and hangs mended and nothing else.
// `corrected`: the rules this project recommends.
enum class Semantics { published, corrected };
enum class WeightRule { participation, samples, steps, equal };

struct PolicyConfig {
  PolicyKind policy = PolicyKind::fedqueue;
  Semantics semantics = Semantics::corrected;  // matters to fedqueue alone

  // Rounds.
  double t_sync_s = 3600;
  double admission_tolerance = 0.15;    // the round's timer is (1 + tolerance)·t_sync
  std::optional<double> round_timer_s;  // set: instead of the above. fedavg: absent = no timer
  std::int64_t quorum = 1;              // updates that a round needs at least
  std::optional<std::int64_t> staleness_max;  // published: no cap; otherwise 4. −1: no cap

  // Planning.
  // Safety time (δ in the paper); absent: 60, or a tenth of t_sync if that is less.
  std::optional<double> theta_s;
  std::optional<double> q_init_s;  // published: 2; otherwise unknown until observed
  double alpha_queue = 0.5;        // weight of the newest wait (also `beta_queue`)
  std::optional<WaitPredictorKind> wait_predictor;  // published: ewma; otherwise log_ewma
  double alpha_compute = 0.5;                       // weight of the newest step time
  double alpha_admission = 0.2;                     // D = q^ + alpha_admission·t_sync
  std::int64_t warm_up_steps = 20;                  // first round's steps, and the least ever
  std::int64_t local_steps = 100;                   // of every segment under fedavg
  double lr_base = 0.01;
  std::optional<bool> scale_learning_rate;  // published: on; otherwise off
  // Left at the end of a job for the upload; absent: 60, or a tenth of the limit if that is less.
  std::optional<double> walltime_margin_s;
  std::int64_t segments_per_job = 1;

  // Weights.
  std::optional<WeightRule> weights;  // published: steps; corrected: participation; fedavg: samples
  std::optional<StalenessFunction> staleness_fn;  // corrected: harmonic 0.5; otherwise constant
  double gamma = 0.05;                            // weight of the newest round in the participation
  double m_min = 0.1;
  double a_max = 2;
  WaitFactor wait_factor = WaitFactor::none;
  double wait_factor_beta = 0.5;
  std::optional<double> share_cap;  // published: off (1); otherwise share_cap_default
  double eta_global = 1;            // η_g, the server's step on the weighted sum

  [[nodiscard]] bool is_published() const {
    return policy == PolicyKind::fedqueue && semantics == Semantics::published;
  }

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
[[nodiscard]] Result<Semantics> parse_semantics(std::string_view text);
[[nodiscard]] Result<WeightRule> parse_weight_rule(std::string_view text);
[[nodiscard]] std::string_view policy_kind_name(PolicyKind kind);
[[nodiscard]] std::string_view semantics_name(Semantics semantics);
[[nodiscard]] std::string_view weight_rule_name(WeightRule rule);

}  // namespace fedqueue
