// Which of a round's arrivals are used when it is aggregated, which stay buffered, and which are
// dropped. Each facility is used at most once.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "aggregation/policy/policy.h"

namespace fedqueue {

// Facility, base, id: the order of the sums, whatever arrived first.
void sort_by_name(std::vector<Arrival>& arrivals);

struct RoundSelection {
  std::vector<Arrival> used;  // in the fixed order: facility, base, id
  std::vector<UpdateId> kept_late;
  std::vector<DroppedUpdate> dropped;
};

// Closing by arrival: the updates buffered in earlier rounds come first, then those of this round;
// of one facility the oldest is used and the others stay buffered. Updates that grew older than
// `staleness_max` while they waited are dropped.
[[nodiscard]] RoundSelection select_by_arrival(const RoundState& round,
                                               std::optional<std::int64_t> staleness_max);

// Facilities with anything in the round, late or not. The reference counts a reconnected client
// twice and then loses one of its answers; here it counts once.
[[nodiscard]] std::int64_t facilities_in(const RoundState& round);

// The reference's rule: this round's admitted updates and every late one whose base has already
// missed a round; if that is nothing, all late ones. So it is, too, when everybody's update is in
// and the others are fewer than `quorum`: nobody could come any more, and the round would stay open
// for ever. Of one facility the newest is used and the older ones are dropped.
[[nodiscard]] RoundSelection select_as_published(const RoundState& round,
                                                 std::optional<std::int64_t> staleness_max,
                                                 std::int64_t quorum = 1);

// Whether select_by_arrival would use an update of this facility, without making the selection.
[[nodiscard]] bool holds_update_for_this_round(const RoundState& round, const FacilityId& facility,
                                               std::optional<std::int64_t> staleness_max);

[[nodiscard]] bool has_used(const RoundSelection& selection, const FacilityId& facility);

// Absent means no cap; so does a negative configured value.
[[nodiscard]] std::optional<std::int64_t> staleness_cap(const PolicyConfig& config);

[[nodiscard]] inline std::int64_t staleness_of(const Arrival& arrival, Version version) {
  return version - arrival.base;
}

// Why an update can never count, whatever the policy; empty if it can.
[[nodiscard]] std::string reason_to_reject(const Arrival& arrival, Version version,
                                           std::optional<std::int64_t> staleness_max);

}  // namespace fedqueue
