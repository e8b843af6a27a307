// The learning rate of a local step, as a multiple of the one that the segment came with.
//
// Three factors: the schedule over this facility's own steps, the linear scaling rule, and a ramp
// where the global batch changes, as when an allocation has more ranks than the one before.
//
//   schedule     ramp up linearly from warm_up_start to 1 within warm_up_steps, stay there for
//                hold_steps, then constant, step, cosine or polynomial until `steps`
//   scaling      global batch / reference_batch
//   ramp         linear in ramp_steps from the old batch's scaling to the new one's
//
// Momentum needs no correction when the rate changes: the optimisers keep it free of the rate.
// Sources: Goyal et al., "Accurate, Large Minibatch SGD" (2017), sections 2.1 and 2.2; Lin et al.,
// "Dynamic Mini-batch SGD for Elastic Distributed Training" (2019); You et al., LARS (2017), for
// the polynomial of power 2; Zheng et al., LANS (2020), for the plateau.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/result.h"

namespace fedqueue {

enum class LrSchedule : std::int32_t { constant, step, cosine, polynomial };
[[nodiscard]] const char* to_text(LrSchedule schedule);
[[nodiscard]] std::optional<LrSchedule> parse_lr_schedule(std::string_view text);

struct LearningRateSettings {
  LrSchedule schedule = LrSchedule::constant;
  std::int64_t steps = 0;  // all of the schedule, with warm-up and plateau; then its end is kept
  std::int64_t hold_steps = 0;
  std::int64_t step_every = 0;  // step
  double step_factor = 0.1;     // step
  double power = 2;             // polynomial
  double end = 0;               // cosine, polynomial: what is left of the rate at the end
  std::int64_t warm_up_steps = 0;
  // A share of the full rate. Absent: a tenth, or with linear scaling the unscaled rate.
  std::optional<double> warm_up_start;
  std::int64_t reference_batch = 0;  // 0: no scaling
  std::int64_t ramp_steps = 8;

  friend bool operator==(const LearningRateSettings&, const LearningRateSettings&) = default;
};

// Code::usage with what is missing or contradicts itself.
[[nodiscard]] Status check(const LearningRateSettings& settings);

// The schedule alone, after `steps_done` steps. REQUIRES: check(settings).
[[nodiscard]] double schedule_factor(const LearningRateSettings& settings, double steps_done,
                                     std::int64_t batch);

// Where a facility stands. Part of its checkpoint.
struct LearningRateState {
  double steps_done = 0;  // AdaScale counts a step as several
  std::int64_t batch = 0;
  double ramp_from = 0;  // the scaling that the ramp began at
  std::int64_t ramp_done = 0;

  friend bool operator==(const LearningRateState&, const LearningRateState&) = default;
};

// The next steps have another global batch: begins a ramp, unless these are the first.
void change_batch(LearningRateState& state, const LearningRateSettings& settings,
                  std::int64_t batch);
// Of the next step. REQUIRES: change_batch() was called once.
[[nodiscard]] double multiplier(const LearningRateState& state,
                                const LearningRateSettings& settings);
// One step was made, which counts as `gain` steps of the schedule.
void advance(LearningRateState& state, double gain = 1);

}  // namespace fedqueue
