// What the policies without rounds share: every update counts by itself, several of one facility
// too, and none waits for the others.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "aggregation/policy/policy.h"

namespace fedqueue {

struct ArrivalPool {
  std::vector<Arrival> usable;  // in the order of arrival, what was kept from before first
  std::vector<DroppedUpdate> dropped;
};

// All that arrived and may still count; what grew too stale or is not enrolled is dropped.
[[nodiscard]] ArrivalPool pool_arrivals(const RoundState& round, const Shares& shares,
                                        const Policy& policy);

// Counted, unless it can never count.
[[nodiscard]] Admission admit_each(const Arrival& arrival, const RoundState& round,
                                   const Policy& policy);

// As soon as `needed` updates are in, or at least one when a configured timer fires.
[[nodiscard]] CloseDecision close_at(std::int64_t needed, const RoundState& round);

// The further factor of an arrival: 1, 1/K, or its facility's share of the samples.
[[nodiscard]] double client_factor(const FacilityId& facility, const Shares& shares,
                                   const PolicyConfig& config);

[[nodiscard]] WeightedUpdate weighted(const Arrival& arrival, Version version, double weight,
                                      double staleness_factor);

}  // namespace fedqueue
