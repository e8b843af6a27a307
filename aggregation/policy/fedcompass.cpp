#include "aggregation/policy/fedcompass.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "aggregation/policy/arrivals.h"
#include "aggregation/policy/round_rules.h"
#include "aggregation/policy/round_selection.h"
#include "aggregation/policy/round_weights.h"

namespace fedqueue {
namespace {

// So that a whole number of steps stays whole in spite of rounding.
std::int64_t whole_steps(double seconds, double pace_s) {
  const double steps = std::floor(seconds / pace_s + 1e-9);
  return steps < 1e15 ? static_cast<std::int64_t>(steps) : std::int64_t{1'000'000'000'000'000};
}

bool alone(const Arrival& arrival) { return arrival.place.group < 0; }
bool in_time(const Arrival& arrival) {
  return !alone(arrival) && arrival.stored_s <= arrival.place.latest_s;
}

// What is aggregated now, if anything.
struct Due {
  const Arrival* first = nullptr;     // of a facility without a group: by itself
  std::optional<std::int64_t> group;  // with whoever was late elsewhere
  bool late_ones = false;             // nobody else is left to wait for
  std::string reason;
  [[nodiscard]] bool any() const { return first != nullptr || group || late_ones; }
};

std::vector<const Arrival*> all_of(const RoundState& round) {
  std::vector<const Arrival*> arrivals;
  for (const std::vector<Arrival>* list : {&round.late, &round.counted})
    for (const Arrival& arrival : *list) arrivals.push_back(&arrival);
  return arrivals;
}

Due due_in(const RoundState& round) {
  Due due;
  bool has_late = false;
  std::set<std::int64_t> waiting;
  for (const Arrival* arrival : all_of(round)) {
    if (alone(*arrival)) {
      due.first = arrival;
      due.reason = "the first update of " + arrival->facility.str() + " is in";
      return due;
    }
    if (!in_time(*arrival)) {
      has_late = true;
    } else {
      waiting.insert(arrival->place.group);
      if (arrival->place.latest_s <= round.now_s &&
          (!due.group || arrival->place.group < *due.group)) {
        due.group = arrival->place.group;
        due.reason = "the latest time of group " + std::to_string(*due.group) + " has passed";
      }
    }
  }
  if (due.group) return due;
  bool one_open = false;
  for (const Group& group : round.groups) {
    if (waiting.contains(group.id) && group.missing == 0) {
      due.group = group.id;
      due.reason = "group " + std::to_string(group.id) + " is complete";
      return due;
    }
    one_open = one_open || (group.missing > 0 && group.latest_s > round.now_s);
  }
  if (has_late && !one_open) {
    due.late_ones = true;
    due.reason = "only late updates are left";
  }
  return due;
}

}  // namespace

WorkPlan FedCompass::plan(const KnownFacility& self, std::span<const KnownFacility>,
                          std::optional<double> time_limit_s, Version) const {
  // Without a place: the first work of a facility, which shows its pace.
  return plan_steps(*config().segment_steps_min, self, time_limit_s, config());
}

std::optional<GroupedWork> FedCompass::place(const KnownFacility& self,
                                             std::span<const Group> groups, std::int64_t next_group,
                                             double now_s) const {
  if (!self.pace_s || *self.pace_s <= 0) return std::nullopt;
  const double pace_s = *self.pace_s;
  const std::int64_t least = *config().segment_steps_min;
  const std::int64_t most = *config().segment_steps_max;
  const Group* joined = nullptr;
  std::int64_t joined_steps = 0;
  for (const Group& group : groups) {
    const std::int64_t steps = whole_steps(group.expected_s - now_s, pace_s);
    // Of equals the later one.
    if (steps < least || steps > most || steps < joined_steps) continue;
    joined = &group;
    joined_steps = steps;
  }
  if (joined != nullptr)
    return GroupedWork{{joined->id, joined->expected_s, joined->latest_s}, joined_steps};
  std::optional<std::int64_t> fitting;
  for (const Group& group : groups) {
    if (now_s >= group.latest_s) continue;
    const double estimate_s = group.latest_s + group.fastest_pace_s * static_cast<double>(most);
    const std::int64_t steps = whole_steps(estimate_s - now_s, pace_s);
    if (steps <= most && steps > fitting.value_or(-1)) fitting = steps;
  }
  const std::int64_t steps = std::max(least, fitting.value_or(most));
  const double training_s = static_cast<double>(steps) * pace_s;
  return GroupedWork{
      {next_group, now_s + training_s, now_s + config().latest_time_factor * training_s}, steps};
}

Admission FedCompass::admit(const Arrival& arrival, const RoundState& round) const {
  Admission admission = admit_each(arrival, round, *this);
  if (admission.kind == Admission::Kind::reject || alone(arrival)) return admission;
  if (in_time(arrival)) {
    admission.reason = "counts when group " + std::to_string(arrival.place.group) + " is complete";
    return admission;
  }
  return {Admission::Kind::count, true,
          "later than the latest time of its group; counts with the next group", true};
}

CloseDecision FedCompass::should_close(const RoundState& round) const {
  const Due due = due_in(round);
  if (due.any()) return {true, due.reason};
  return {false, "no group is complete"};
}

Aggregation FedCompass::aggregate(const RoundState& round, std::span<const KnownFacility>,
                                  const Shares& shares) const {
  ArrivalPool pool = pool_arrivals(round, shares, *this);
  const Due due = due_in(round);
  Aggregation result;
  result.dropped = std::move(pool.dropped);
  std::vector<Arrival> used;
  for (const Arrival& arrival : pool.usable) {
    const bool now = due.first != nullptr ? arrival.id == due.first->id
                     : in_time(arrival)   ? due.group == arrival.place.group
                                          : !alone(arrival) && (due.group || due.late_ones);
    if (now)
      used.push_back(arrival);
    else
      result.kept_late.push_back(arrival.id);
  }
  if (due.group) result.closed_groups.push_back(*due.group);
  sort_by_name(used);
  const bool mixes = config().mixing == Mixing::models;
  double sum = 0;
  for (const Arrival& arrival : used) {
    const double factor =
        (*config().staleness_fn)(static_cast<double>(round.version - arrival.base));
    const double a = *config().alpha * factor * client_factor(arrival.facility, shares, config());
    sum += a;
    result.updates.push_back(
        weighted(arrival, round.version, mixes ? a : *config().eta_global * a, factor));
  }
  result.rebuild_models = mixes;
  if (mixes) {
    // More than the whole model cannot be replaced: with equal shares one facility has no two.
    if (sum > 1)
      for (WeightedUpdate& update : result.updates) update.weight /= sum;
    result.keep = std::max(0.0, 1 - sum);
  }
  add_server_step(result, shares.count(), config());
  return result;
}

}  // namespace fedqueue
