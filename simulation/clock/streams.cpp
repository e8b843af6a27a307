#include "simulation/clock/streams.h"

#include <cmath>

#include "simulation/clock/trace.h"

namespace fedqueue::simulation {

std::uint64_t stream_seed(std::uint64_t seed, std::string_view purpose, std::uint64_t index) {
  Trace mixer;
  mixer.mix(seed);
  mixer.mix(purpose);
  mixer.mix(index);
  return mixer.hash();
}

double log_normal(Prng& random, double median, double sigma) {
  return median * std::exp(sigma * random.normal());
}

double exponential(Prng& random, double mean) { return -mean * std::log(1 - random.uniform()); }

double between(Prng& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

bool chance(Prng& random, double probability) {
  return probability > 0 && random.uniform() < probability;
}

}  // namespace fedqueue::simulation
