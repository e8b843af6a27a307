// A warm-up that finds its own end: the rate rises exponentially until the losses have passed their
// minimum, and goes back to where that was.
//
//   rise     factor(t) = start^(1 − t/steps), from `start` to 1
//   test     loss_minimum.h, once in an epoch, but 50 to 100 times in the warm-up
//   end      three tests in a row pass: factor = mean of start·(factor/start)^x over the five
//            places x of the minimum; or after `steps`, with what was reached
//
// At most 512 losses are kept: when there is no more room, each two are replaced by their mean.
// Source: Kim et al., AutoWU (2021), section 3.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "fedclient/recipe/loss_minimum.h"

namespace fedqueue {

enum class LossTest : std::int32_t { gaussian_process, kernel };
[[nodiscard]] const char* to_text(LossTest test);
[[nodiscard]] std::optional<LossTest> parse_loss_test(std::string_view text);

struct AutoWarmUpSettings {
  double start = 1e-5;  // share of the full rate
  std::int64_t steps = 0;
  LossTest test = LossTest::gaussian_process;
};

// Part of a facility's checkpoint. Plain bytes.
struct AutoWarmUp {
  static constexpr std::size_t kMostLosses = 512;

  bool ended = false;
  double factor = 0;    // ended: what the schedule falls from
  double ended_at = 0;  // ended: after so many steps
  std::int64_t passed_in_a_row = 0;
  std::int64_t tests = 0;
  std::int64_t steps_since_test = 0;
  // Each the mean of `steps_each` steps' losses.
  std::array<double, kMostLosses> losses{};
  std::int64_t count = 0;
  std::int64_t steps_each = 1;
  double gathered = 0;  // of the next: sum, and how many
  std::int64_t gathered_count = 0;
  GaussianProcess process;

  friend bool operator==(const AutoWarmUp&, const AutoWarmUp&) = default;
};

// As a row of numbers and back; nothing if they are none of its.
[[nodiscard]] std::vector<double> to_numbers(const AutoWarmUp& state);
[[nodiscard]] std::optional<AutoWarmUp> auto_warm_up_of(std::span<const double> numbers);

// Of the next step. REQUIRES: start > 0, steps > 0.
[[nodiscard]] double factor(const AutoWarmUp& state, const AutoWarmUpSettings& settings,
                            double steps_done);
// A step was made that had this loss, the same on all ranks; losses that are not finite are left
// out. `steps_done` counts it.
void observe(AutoWarmUp& state, const AutoWarmUpSettings& settings, double loss, double steps_done,
             std::int64_t steps_per_epoch, std::uint64_t seed);

}  // namespace fedqueue
