// The weights of a selection of updates, by the configured rule.
//
//   samples, steps, equal   v_k = base_k · s(τ_k) · g(q_k),  a_k = v_k / Σ v
//   participation           a_k = p_k · s(τ_k) · g(q_k) / max(m_k, m_min),  Σ a ≤ a_max
//
// Thread safety: pure functions.
#pragma once

#include <span>

#include "aggregation/policy/round_selection.h"

namespace fedqueue {

// `config` is effective. Steps are those assigned under `published` and those run otherwise.
// Updates of facilities that are not in the list are dropped.
[[nodiscard]] Aggregation weigh(const RoundSelection& selection, Version version,
                                std::span<const KnownFacility> facilities,
                                const PolicyConfig& config);

}  // namespace fedqueue
