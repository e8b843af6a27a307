// Weights by participation: a facility that the queue lets in rarely counts for more when it is
// there, so that over many rounds the model does not drift to the facilities with short queues.
//
//   a_k = p_k · s(τ_k) / max(m_k, m_min)         not renormalised over whoever is there
//   m_k ← (1 − γ)·m_k + γ·χ_k                    χ_k = s(τ_k) if counted in the round, else 0
//
// p_k is the facility's fixed share and m_k its participation: the share of rounds it was counted
// in, with stale updates counted as the fraction they weigh.
//
// Promises: finite results ≥ 0 for all finite arguments.
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <span>

namespace fedqueue {

// m_k before there is data: min(1, T·(1 + tolerance) / (q^ + J)), the share of rounds that the
// predicted wait and the work allow; 1 if the wait is unknown.
[[nodiscard]] double first_participation(double t_sync_s, double admission_tolerance,
                                         std::optional<double> predicted_wait_s, double budget_s);

[[nodiscard]] double participation_weight(double share, double staleness_factor,
                                          double participation, double participation_min);

// `counted_factor` is χ: s(τ) of the update counted in this round, 0 if none was.
[[nodiscard]] double update_participation(double participation, double gamma,
                                          double counted_factor);

// The same as a rate, for policies without rounds: the window is the mean time between two updates
// of a facility that is always there, and `windows` of them passed since this facility's last
// update. With one window per update it is the rule above.
//
//   weight uses   m · (1 − γ)^max(0, windows − 1)          the windows in which it was missing
//   afterwards    m ← m · (1 − γ)^windows + γ·χ
[[nodiscard]] double participation_at_arrival(double participation, double gamma, double windows);
[[nodiscard]] double participation_after_arrival(double participation, double gamma, double windows,
                                                 double counted_factor);

// The share of the time in which a facility has a job that keeps its allocation for `job_s`: less
// than 1 while the next job waits, which with early submission it does beside its predecessor.
[[nodiscard]] double first_presence(std::optional<double> predicted_wait_s, double job_s,
                                    bool submits_early);

// Scales all weights down so that their sum is at most `sum_max`; leaves smaller sums alone.
void limit_sum(std::span<double> weights, double sum_max);

}  // namespace fedqueue
