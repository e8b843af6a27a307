// The weights of a selection of updates, by the configured rule.
//
//   samples, steps, equal   v_k = base_k · s(τ_k) · g(q_k),  a_k = v_k / Σ v
//   nova                    a_k = τ_eff·p_k/‖a_k‖ with p_k as by samples (normalised.h)
//   participation           a_k = p_k · s(τ_k) · g(q_k) / max(m_k, m_min),  Σ a ≤ a_max
//
// Thread safety: pure functions.
#pragma once

#include <span>
#include <unordered_map>

#include "aggregation/policy/round_selection.h"

namespace fedqueue {

// Those who sent something, by name. The list outlives it.
class SendersByName {
 public:
  explicit SendersByName(std::span<const KnownFacility> senders);
  // REQUIRES: it is in the list.
  [[nodiscard]] const KnownFacility& at(const FacilityId& facility) const;

 private:
  std::unordered_map<FacilityId, const KnownFacility*> senders_;
};

// The step, and the weight of control variates: 1/N of the enrolled facilities.
void add_server_step(Aggregation& aggregation, std::size_t enrolled, const PolicyConfig& config);

// `config` is effective. Steps are those assigned under `published` and those run otherwise.
// Updates of facilities that have no share, not being enrolled, are dropped.
[[nodiscard]] Aggregation weigh(const RoundSelection& selection, Version version,
                                std::span<const KnownFacility> senders, const Shares& shares,
                                const PolicyConfig& config);

}  // namespace fedqueue
