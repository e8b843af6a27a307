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
// The warm-up may find its own end and height (auto_warm_up.h); the schedule falls from there.
//
// With batch_growth the batch grows where `step` would lower the rate, as long as batch_max allows;
// the noise of the steps, proportional to rate/batch, falls alike. A step of a batch that grew
// counts as so many steps of the schedule, which falls after the same samples therefore; the
// scaling is that of the batch before it grew.
//
// Momentum needs no correction when the rate changes: the optimisers keep it free of the rate.
// Sources: Goyal et al., "Accurate, Large Minibatch SGD" (2017), sections 2.1 and 2.2; Lin et al.,
// "Dynamic Mini-batch SGD for Elastic Distributed Training" (2019); You et al., LARS (2017), for
// the polynomial of power 2; Zheng et al., LANS (2020), for the plateau; Smith et al.,
// "Don't Decay the Learning Rate, Increase the Batch Size" (2018), for batch_growth.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/result.h"
#include "fedclient/recipe/auto_warm_up.h"

namespace fedqueue {

enum class LrSchedule : std::int32_t { constant, step, cosine, polynomial };
[[nodiscard]] const char* to_text(LrSchedule schedule);
[[nodiscard]] std::optional<LrSchedule> parse_lr_schedule(std::string_view text);

struct LearningRateSettings {
  LrSchedule schedule = LrSchedule::constant;
  std::int64_t steps = 0;  // all of the schedule, with warm-up and plateau; then its end is kept
  std::int64_t hold_steps = 0;
  std::int64_t step_every = 0;    // step
  double step_factor = 0.1;       // step
  std::int64_t batch_growth = 1;  // step: times the batch instead, until batch_max
  std::int64_t batch_max = 0;     // 0: a tenth of the dataset, which the caller fills in
  double power = 2;               // polynomial
  double end = 0;                 // cosine, polynomial: what is left of the rate at the end
  bool auto_warm_up = false;
  LossTest warm_up_test = LossTest::gaussian_process;  // of auto_warm_up
  std::int64_t warm_up_steps = 0;                      // 0 and auto_warm_up: half of `steps`
  // A share of the full rate. Absent: a tenth, with linear scaling the unscaled rate, with
  // auto_warm_up 1e-5.
  std::optional<double> warm_up_start;
  std::int64_t reference_batch = 0;  // 0: no scaling
  std::int64_t ramp_steps = 8;

  friend bool operator==(const LearningRateSettings&, const LearningRateSettings&) = default;
};

// Code::usage with what is missing or contradicts itself.
[[nodiscard]] Status check(const LearningRateSettings& settings);

// The schedule alone, after `steps_done` steps. REQUIRES: check(settings), no auto_warm_up.
[[nodiscard]] double schedule_factor(const LearningRateSettings& settings, double steps_done,
                                     std::int64_t batch);

// Where a facility stands. Part of its checkpoint.
struct LearningRateState {
  double steps_done = 0;  // AdaScale and batch_growth count a step as several
  std::int64_t batch = 0;
  double ramp_from = 0;  // the scaling that the ramp began at
  std::int64_t ramp_done = 0;
  AutoWarmUp warm_up;  // empty without it

  friend bool operator==(const LearningRateState&, const LearningRateState&) = default;
};

// The next steps have another global batch: begins a ramp, unless these are the first.
void change_batch(LearningRateState& state, const LearningRateSettings& settings,
                  std::int64_t batch);
// Of the next step. REQUIRES: change_batch() was called once.
[[nodiscard]] double multiplier(const LearningRateState& state,
                                const LearningRateSettings& settings);
// What the next step's batch is, in multiples of the state's. REQUIRES: as multiplier().
[[nodiscard]] std::int64_t batch_multiple(const LearningRateState& state,
                                          const LearningRateSettings& settings);
// One step was made, which counts as `gain` steps of the schedule.
void advance(LearningRateState& state, double gain = 1);
// After advance(): what auto_warm_up needs to know of the step. No effect without it.
void observe_loss(LearningRateState& state, const LearningRateSettings& settings, double loss,
                  std::int64_t steps_per_epoch, std::uint64_t seed);

}  // namespace fedqueue
