#include "fedclient/recipe/auto_warm_up.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <type_traits>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

constexpr LossTest kTests[] = {LossTest::gaussian_process, LossTest::kernel};
constexpr std::int64_t kPassesToEnd = 3;
constexpr std::int64_t kFewestLosses = 10;
constexpr std::int64_t kFewestTests = 50;
constexpr std::int64_t kMostTests = 100;

double risen(const AutoWarmUpSettings& settings, double steps_done) {
  const double share = std::clamp(steps_done / static_cast<double>(settings.steps), 0.0, 1.0);
  return std::pow(settings.start, 1 - share);
}

void remember(AutoWarmUp& state, double loss) {
  state.gathered += loss;
  if (++state.gathered_count < state.steps_each) return;
  if (state.count == static_cast<std::int64_t>(AutoWarmUp::kMostLosses)) {
    for (std::size_t i = 0; i < AutoWarmUp::kMostLosses / 2; ++i)
      state.losses[i] = (state.losses[2 * i] + state.losses[2 * i + 1]) / 2;
    state.count /= 2;
    state.steps_each *= 2;
    return;  // the next one is now half gathered
  }
  state.losses[static_cast<std::size_t>(state.count++)] =
      state.gathered / static_cast<double>(state.gathered_count);
  state.gathered = 0;
  state.gathered_count = 0;
}

std::int64_t steps_between_tests(const AutoWarmUpSettings& settings, std::int64_t steps_per_epoch) {
  const std::int64_t most = std::max<std::int64_t>(settings.steps / kFewestTests, 1);
  const std::int64_t least = std::max<std::int64_t>(settings.steps / kMostTests, 1);
  return std::clamp(steps_per_epoch, least, most);
}

}  // namespace

const char* to_text(LossTest test) {
  return test == LossTest::kernel ? "kernel" : "gaussian_process";
}

std::optional<LossTest> parse_loss_test(std::string_view text) {
  for (const LossTest test : kTests)
    if (text == to_text(test)) return test;
  return std::nullopt;
}

namespace {

// Everything but the losses, in the order in which it is kept.
template <typename State, typename Visit>
void each_number(State& state, Visit&& visit) {
  visit(state.ended);
  visit(state.factor);
  visit(state.ended_at);
  visit(state.passed_in_a_row);
  visit(state.tests);
  visit(state.steps_since_test);
  visit(state.count);
  visit(state.steps_each);
  visit(state.gathered);
  visit(state.gathered_count);
  visit(state.process.scale);
  visit(state.process.noise);
  for (auto& value : state.process.first) visit(value);
  for (auto& value : state.process.second) visit(value);
  visit(state.process.adam_steps);
}

}  // namespace

std::vector<double> to_numbers(const AutoWarmUp& state) {
  std::vector<double> numbers;
  each_number(state, [&](const auto& value) { numbers.push_back(static_cast<double>(value)); });
  numbers.insert(numbers.end(), state.losses.begin(), state.losses.begin() + state.count);
  return numbers;
}

std::optional<AutoWarmUp> auto_warm_up_of(std::span<const double> numbers) {
  AutoWarmUp state;
  std::size_t at = 0;
  bool sound = true;
  each_number(state, [&](auto& value) {
    const double number = at < numbers.size() ? numbers[at] : -1;
    ++at;
    // Counts are what a double holds exactly.
    if (!std::is_same_v<decltype(value), double&> && !(number >= 0 && number < 0x1p53))
      sound = false;
    else
      value = static_cast<std::decay_t<decltype(value)>>(number);
  });
  const bool finite =
      std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
  if (!sound || !finite || state.steps_each < 1 ||
      state.count > static_cast<std::int64_t>(AutoWarmUp::kMostLosses) ||
      numbers.size() != at + static_cast<std::size_t>(state.count)) {
    return std::nullopt;
  }
  std::copy(numbers.begin() + static_cast<std::ptrdiff_t>(at), numbers.end(), state.losses.begin());
  return state;
}

double factor(const AutoWarmUp& state, const AutoWarmUpSettings& settings, double steps_done) {
  FEDQUEUE_ASSERT(settings.start > 0 && settings.steps > 0);
  return state.ended ? state.factor : risen(settings, steps_done);
}

void observe(AutoWarmUp& state, const AutoWarmUpSettings& settings, double loss, double steps_done,
             std::int64_t steps_per_epoch, std::uint64_t seed) {
  if (state.ended) return;
  if (std::isfinite(loss)) remember(state, loss);
  const double reached = risen(settings, steps_done);
  const auto end_with = [&](double factor) {
    state.ended = true;
    state.factor = factor;
    state.ended_at = steps_done;
  };
  if (++state.steps_since_test >= steps_between_tests(settings, steps_per_epoch) &&
      state.count >= kFewestLosses) {
    state.steps_since_test = 0;
    ++state.tests;
    const std::span<const double> losses(state.losses.data(),
                                         static_cast<std::size_t>(state.count));
    const LossMinimum minimum =
        settings.test == LossTest::kernel
            ? kernel_minimum(losses)
            : gaussian_process_minimum(losses, state.process,
                                       seed + static_cast<std::uint64_t>(state.tests));
    state.passed_in_a_row = minimum.passed ? state.passed_in_a_row + 1 : 0;
    if (state.passed_in_a_row >= kPassesToEnd) {
      double sum = 0;
      for (const double place : minimum.places)
        sum += settings.start * std::pow(reached / settings.start, place);
      return end_with(sum / static_cast<double>(minimum.places.size()));
    }
  }
  if (steps_done >= static_cast<double>(settings.steps)) end_with(reached);
}

}  // namespace fedqueue
