// The share of each facility or update before staleness and waits: by samples, by local steps, or
// equal; the share cap; and the factor for the queue wait.
//
// Promises: shares are finite, ≥ 0 and sum to 1 (an empty list stays empty). If nothing has any
// samples or steps, the shares are equal, since a division by zero would end the run.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

// amounts[i] / Σ amounts; negative amounts count as 0.
[[nodiscard]] std::vector<double> proportional_shares(std::span<const std::int64_t> amounts);
[[nodiscard]] std::vector<double> equal_shares(std::size_t count);

// No share above max(cap, 2/K) for K shares; the excess goes to the others in proportion, so that
// the sum stays 1. The default cap of 0.5 says that no facility outweighs all others together.
// Equal facilities are never touched, and with two facilities the cap never binds: there a cap
// would only mean that data no longer matter. cap ≥ 1 switches it off.
inline constexpr double share_cap_default = 0.5;
[[nodiscard]] std::vector<double> cap_shares(std::vector<double> shares, double cap);

// A factor for the queue wait of an update: none → 1; harmonic → 1/(1 + β·q/T).
enum class WaitFactor { none, harmonic };

[[nodiscard]] Result<WaitFactor> parse_wait_factor(std::string_view text);
[[nodiscard]] std::string_view wait_factor_name(WaitFactor factor);
// 1 for an unknown wait.
[[nodiscard]] double wait_factor(WaitFactor factor, double beta, std::optional<double> wait_s,
                                 double t_sync_s);

// Scales to a sum of 1; all-zero weights stay as they are.
void normalise(std::span<double> weights);

}  // namespace fedqueue
