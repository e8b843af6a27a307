// One rank of collective_ranks_test: sums ranges of different lengths, over and over, and prints a
// digest of their bits on rank 0. Leaves with 1 when a sum is wrong.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/base/prng.h"
#include "fedclient/collective/collective.h"

namespace fedqueue {
namespace {

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  return 1;
}

std::vector<float> values_of(int rank, std::size_t count, std::uint64_t step) {
  Prng prng(step * 1000 + static_cast<std::uint64_t>(rank));
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(prng.normal());
  return values;
}

int run() {
  CollectiveOptions options;
  Result<std::unique_ptr<Collective>> launched = launch(options);
  if (!launched) return fail(launched.error());
  Collective& ranks = **launched;
  const std::vector<std::size_t> lengths = {100'000, 1, 4096, 0, 33'333, 7};
  std::size_t count = 0;
  for (const std::size_t length : lengths) count += length;
  std::uint64_t digest = 14695981039346656037u;
  for (std::uint64_t step = 0; step < 4; ++step) {
    std::vector<float> values = values_of(ranks.rank(), count, step);
    // From the back, as gradients become ready.
    std::size_t end = count;
    for (const std::size_t length : lengths) {
      end -= length;
      if (Status begun = ranks.begin_sum(values.data() + end, length); !begun)
        return fail(begun.error());
    }
    if (Status finished = ranks.finish_sums(); !finished) return fail(finished.error());
    std::vector<double> wanted(count);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const std::vector<float> part = values_of(rank, count, step);
      for (std::size_t i = 0; i < count; ++i) wanted[i] += static_cast<double>(part[i]);
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (std::abs(static_cast<double>(values[i]) - wanted[i]) > 1e-5) {
        std::fprintf(stderr, "step %d: element %zu is %g, not %g\n", static_cast<int>(step), i,
                     static_cast<double>(values[i]), wanted[i]);
        return 1;
      }
    }
    for (const float value : values) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      digest = (digest ^ bits) * 1099511628211u;
    }
    // Other calls go on between the sums of two steps.
    const Result<std::int64_t> low = ranks.minimum(ranks.rank());
    if (!low) return fail(low.error());
    // The same bits on every rank, or they would train different models.
    const auto own = static_cast<std::int64_t>(digest >> 1);
    const Result<std::int64_t> least = ranks.minimum(own);
    const Result<std::int64_t> greatest = ranks.maximum(own);
    if (!least || !greatest || *least != own || *greatest != own || *low != 0) {
      std::fprintf(stderr, "rank %d has other bits\n", ranks.rank());
      return 1;
    }
  }
  const SumSeconds seconds = ranks.sum_seconds();
  if (!(seconds.under_way > 0)) return 1;
  if (ranks.rank() == 0) std::printf("digest %016llx\n", static_cast<unsigned long long>(digest));
  return 0;
}

}  // namespace
}  // namespace fedqueue

int main() { return fedqueue::run(); }
