// Random streams of a simulated world: one per purpose, all from one seed, so that a further draw
// for one purpose (a message more on the network) does not shift the others (how long jobs wait).
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/prng.h"

namespace fedqueue::simulation {

// The seed of a purpose's stream; `index` tells facilities, links and the like apart.
[[nodiscard]] std::uint64_t stream_seed(std::uint64_t seed, std::string_view purpose,
                                        std::uint64_t index = 0);

[[nodiscard]] inline Prng stream(std::uint64_t seed, std::string_view purpose,
                                 std::uint64_t index = 0) {
  return Prng(stream_seed(seed, purpose, index));
}

// Log-normal with the given median and σ of its logarithm.
[[nodiscard]] double log_normal(Prng& random, double median, double sigma);
// Exponential with the given mean.
[[nodiscard]] double exponential(Prng& random, double mean);
// In [low, high).
[[nodiscard]] double between(Prng& random, double low, double high);
// True with this probability; draws nothing when it is 0.
[[nodiscard]] bool chance(Prng& random, double probability);

}  // namespace fedqueue::simulation
