#include "fedclient/recipe/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

constexpr double kWarmUpStart = 0.1;
constexpr double kAutoWarmUpStart = 1e-5;
constexpr LrSchedule kSchedules[] = {LrSchedule::constant, LrSchedule::step, LrSchedule::cosine,
                                     LrSchedule::polynomial};

double scaling(const LearningRateSettings& settings, std::int64_t batch) {
  if (settings.reference_batch == 0) return 1;
  return static_cast<double>(batch) / static_cast<double>(settings.reference_batch);
}

double line(double from, double to, double done, double whole) {
  return done >= whole ? to : from + (to - from) * done / whole;
}

double warm_up_start(const LearningRateSettings& settings, std::int64_t batch) {
  if (settings.warm_up_start) return *settings.warm_up_start;
  if (settings.reference_batch == 0) return kWarmUpStart;
  return std::min(1.0, 1 / scaling(settings, batch));
}

AutoWarmUpSettings auto_warm_up(const LearningRateSettings& settings) {
  return {settings.warm_up_start.value_or(kAutoWarmUpStart),
          settings.warm_up_steps > 0 ? settings.warm_up_steps : settings.steps / 2,
          settings.warm_up_test};
}

std::int64_t longest_warm_up(const LearningRateSettings& settings) {
  return settings.auto_warm_up ? auto_warm_up(settings).steps : settings.warm_up_steps;
}

// `step`: where the rate fell or the batch grew so far.
struct Falls {
  double of_rate = 0;
  std::int64_t batch_multiple = 1;
};

Falls falls(const LearningRateSettings& settings, double steps_after, std::int64_t batch) {
  Falls result;
  if (settings.schedule != LrSchedule::step || !(steps_after > 0)) return result;
  result.of_rate = std::floor(steps_after / static_cast<double>(settings.step_every));
  while (settings.batch_growth > 1 && result.of_rate >= 1 &&
         result.batch_multiple * settings.batch_growth <= settings.batch_max / batch) {
    result.batch_multiple *= settings.batch_growth;
    result.of_rate -= 1;
  }
  return result;
}

double decay(const LearningRateSettings& settings, double steps_after, double whole,
             std::int64_t batch) {
  const double share = std::clamp(steps_after / whole, 0.0, 1.0);
  switch (settings.schedule) {
    case LrSchedule::constant:
      return 1;
    case LrSchedule::step:
      return std::pow(settings.step_factor, falls(settings, steps_after, batch).of_rate);
    case LrSchedule::cosine:
      return settings.end + (1 - settings.end) * 0.5 * (1 + std::cos(std::acos(-1.0) * share));
    case LrSchedule::polynomial:
      return settings.end + (1 - settings.end) * std::pow(1 - share, settings.power);
  }
  FEDQUEUE_ASSERT(false);
}

// Where the schedule begins to fall; none while the warm-up has not found its end.
std::optional<double> falls_from(const LearningRateState& state,
                                 const LearningRateSettings& settings) {
  if (settings.auto_warm_up && !state.warm_up.ended) return std::nullopt;
  return static_cast<double>(settings.hold_steps) +
         (settings.auto_warm_up ? state.warm_up.ended_at
                                : static_cast<double>(settings.warm_up_steps));
}

double automatic_factor(const LearningRateState& state, const LearningRateSettings& settings) {
  const double top = factor(state.warm_up, auto_warm_up(settings), state.steps_done);
  const std::optional<double> begin = falls_from(state, settings);
  if (!begin || state.steps_done <= *begin) return top;
  return top * decay(settings, state.steps_done - *begin,
                     static_cast<double>(settings.steps) - *begin, state.batch);
}

Error wrong(const std::string& what, const std::string& cure) {
  return {Code::usage, "read the learning-rate schedule: " + what, cure};
}

}  // namespace

const char* to_text(LrSchedule schedule) {
  switch (schedule) {
    case LrSchedule::constant:
      return "constant";
    case LrSchedule::step:
      return "step";
    case LrSchedule::cosine:
      return "cosine";
    case LrSchedule::polynomial:
      return "polynomial";
  }
  FEDQUEUE_ASSERT(false);
}

std::optional<LrSchedule> parse_lr_schedule(std::string_view text) {
  for (const LrSchedule schedule : kSchedules)
    if (text == to_text(schedule)) return schedule;
  return std::nullopt;
}

Status check(const LearningRateSettings& settings) {
  const std::int64_t rising = longest_warm_up(settings);
  if (settings.auto_warm_up && rising < 1) {
    return wrong("the automatic warm-up has no steps to rise in",
                 "Set lr_schedule_steps to all steps of this facility, or lr_warm_up_steps.");
  }
  if (settings.auto_warm_up && !(auto_warm_up(settings).start > 0)) {
    return wrong("the automatic warm-up cannot rise from nothing by constant factors",
                 "Set lr_warm_up_start above 0, or leave it out.");
  }
  if (settings.batch_growth > 1 && settings.schedule != LrSchedule::step) {
    return wrong(
        std::string("batch_growth is for step, and lr_schedule is ") + to_text(settings.schedule),
        "Set lr_schedule = step and lr_step_every, or leave batch_growth out.");
  }
  const std::int64_t before = rising + settings.hold_steps;
  const bool has_end =
      settings.schedule == LrSchedule::cosine || settings.schedule == LrSchedule::polynomial;
  if (has_end && settings.steps <= before) {
    return wrong(std::string(to_text(settings.schedule)) + " over " +
                     std::to_string(settings.steps) + " steps, of which " + std::to_string(before) +
                     " are warm-up and plateau, leaves none to fall in",
                 "Set lr_schedule_steps to all steps of this facility.");
  }
  if (settings.schedule == LrSchedule::step && settings.step_every < 1)
    return wrong("step falls every " + std::to_string(settings.step_every) + " steps",
                 "Set lr_step_every to at least 1.");
  return {};
}

double schedule_factor(const LearningRateSettings& settings, double steps_done,
                       std::int64_t batch) {
  const auto rising = static_cast<double>(settings.warm_up_steps);
  if (steps_done < rising) return line(warm_up_start(settings, batch), 1, steps_done, rising);
  const double before = rising + static_cast<double>(settings.hold_steps);
  if (steps_done <= before) return 1;
  return decay(settings, steps_done - before, static_cast<double>(settings.steps) - before, batch);
}

void change_batch(LearningRateState& state, const LearningRateSettings& settings,
                  std::int64_t batch) {
  if (batch == state.batch) return;
  const bool first = state.batch == 0;
  // A batch that changes while a ramp still goes on begins the next one where that one is.
  const double reached =
      first ? scaling(settings, batch)
            : line(state.ramp_from, scaling(settings, state.batch),
                   static_cast<double>(state.ramp_done), static_cast<double>(settings.ramp_steps));
  state.batch = batch;
  state.ramp_from = reached;
  state.ramp_done = 0;
}

double multiplier(const LearningRateState& state, const LearningRateSettings& settings) {
  FEDQUEUE_ASSERT(state.batch > 0);
  const double scaled =
      line(state.ramp_from, scaling(settings, state.batch), static_cast<double>(state.ramp_done),
           static_cast<double>(settings.ramp_steps));
  return scaled * (settings.auto_warm_up
                       ? automatic_factor(state, settings)
                       : schedule_factor(settings, state.steps_done, state.batch));
}

std::int64_t batch_multiple(const LearningRateState& state, const LearningRateSettings& settings) {
  FEDQUEUE_ASSERT(state.batch > 0);
  const std::optional<double> begin = falls_from(state, settings);
  return begin ? falls(settings, state.steps_done - *begin, state.batch).batch_multiple : 1;
}

void advance(LearningRateState& state, double gain) {
  state.steps_done += gain;
  ++state.ramp_done;
}

void observe_loss(LearningRateState& state, const LearningRateSettings& settings, double loss,
                  std::int64_t steps_per_epoch, std::uint64_t seed) {
  if (!settings.auto_warm_up) return;
  observe(state.warm_up, auto_warm_up(settings), loss, state.steps_done, steps_per_epoch, seed);
}

}  // namespace fedqueue
