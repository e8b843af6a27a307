#include "fedclient/recipe/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

constexpr double kWarmUpStart = 0.1;
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

double decay(const LearningRateSettings& settings, double steps_after, double whole) {
  const double share = std::clamp(steps_after / whole, 0.0, 1.0);
  switch (settings.schedule) {
    case LrSchedule::constant:
      return 1;
    case LrSchedule::step:
      return std::pow(settings.step_factor,
                      std::floor(steps_after / static_cast<double>(settings.step_every)));
    case LrSchedule::cosine:
      return settings.end + (1 - settings.end) * 0.5 * (1 + std::cos(std::acos(-1.0) * share));
    case LrSchedule::polynomial:
      return settings.end + (1 - settings.end) * std::pow(1 - share, settings.power);
  }
  FEDQUEUE_ASSERT(false);
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
  const std::int64_t before = settings.warm_up_steps + settings.hold_steps;
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
  return decay(settings, steps_done - before, static_cast<double>(settings.steps) - before);
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
  return scaled * schedule_factor(settings, state.steps_done, state.batch);
}

void advance(LearningRateState& state, double gain) {
  state.steps_done += gain;
  ++state.ramp_done;
}

}  // namespace fedqueue
