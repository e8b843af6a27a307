// Plays one seed: a federation with faults in which nothing wrong may happen, then without faults
// until every round, and at last the run, has ended within its bound.
//
// Thread safety: seeds may be played on several threads at the same time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/points.h"
#include "simulation/check/checker.h"

namespace fedqueue::simulation {

struct SeedResult {
  std::uint64_t seed = 0;
  std::string hash;  // of the trace
  std::vector<Violation> violations;
  points::MarkCounts marks{};
  std::uint64_t events = 0;
  double virtual_s = 0;
  double calm_s = 0;  // from the end of the faults to the end of the run
  Version versions = 0;
  int processes = 0;  // of the server
};

// `listener` hears the story; `bug` is planted meanwhile.
[[nodiscard]] SeedResult play_seed(std::uint64_t seed, const Trace::Listener& listener = {},
                                   points::Bug bug = points::Bug::none);

}  // namespace fedqueue::simulation
