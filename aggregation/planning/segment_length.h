// How many local steps a job trains between two exchanges with the server, when it keeps its
// allocation: as few as keep the exchange cheap, since every further step makes the update staler.
//
//   E = smallest with  sync ≤ share · (E·c + sync),  within [min, max]
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>

namespace fedqueue {

struct SegmentLimits {
  std::int64_t usual = 40;  // while the cost of an exchange or of a step is unknown
  std::int64_t min = 20;
  std::int64_t max = 1000;
  double sync_share_max = 0.1;  // of the time from one exchange to the next
};

// `sync_seconds`: everything between two segments but the training itself (upload, publication,
// download, loading). REQUIRES: 1 ≤ min ≤ max, 0 < sync_share_max ≤ 1.
[[nodiscard]] std::int64_t segment_steps(std::optional<double> sync_seconds,
                                         std::optional<double> step_seconds,
                                         const SegmentLimits& limits);

}  // namespace fedqueue
