// The rules that FedAvg and the corrected FedQueue share: rounds that close by arrival.
//
// Thread safety: pure functions.
#pragma once

#include "aggregation/policy/policy.h"

namespace fedqueue {

// Counted unless it can never count or its facility already has an update in this round, which
// then waits for the next one. Late: it waited longer than its deadline, or is stale.
[[nodiscard]] Admission admit_by_arrival(const Arrival& arrival, const RoundState& round,
                                         const PolicyConfig& config);

// All expected facilities in, or the timer; never with fewer updates than the quorum.
[[nodiscard]] CloseDecision close_by_arrival(const RoundState& round, const PolicyConfig& config);

[[nodiscard]] Aggregation aggregate_by_arrival(const RoundState& round,
                                               std::span<const KnownFacility> senders,
                                               const Shares& shares, const PolicyConfig& config);

// So many steps, or what the time limit allows if that is less, at the base learning rate.
[[nodiscard]] WorkPlan plan_steps(std::int64_t steps, const KnownFacility& self,
                                  std::optional<double> time_limit_s, const PolicyConfig& config);

// The configured margin, or 60 seconds, or a tenth of the limit if that is less.
[[nodiscard]] double walltime_margin_s(const PolicyConfig& config,
                                       std::optional<double> time_limit_s);

// For a facility whose wait is unknown: nobody is given up before the round's timer.
[[nodiscard]] double unknown_wait_deadline_s(const PolicyConfig& config);

// "2000.0": seconds for a sentence.
[[nodiscard]] std::string seconds_text(double seconds);

}  // namespace fedqueue
