#include "aggregation/policy/round_selection.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace fedqueue {
namespace {

std::string too_stale(const Arrival& arrival, Version version, std::int64_t staleness_max) {
  return "trained from version " + std::to_string(arrival.base) + ", " +
         std::to_string(staleness_of(arrival, version)) + " versions behind the newest; at most " +
         std::to_string(staleness_max) + " are allowed";
}

bool is_too_stale(const Arrival& arrival, Version version,
                  const std::optional<std::int64_t>& staleness_max) {
  return staleness_max && staleness_of(arrival, version) > *staleness_max;
}

// A selection in the making, with the place of each facility's update.
class Selector {
 public:
  Selector(Version version, std::optional<std::int64_t> staleness_max)
      : version_(version), staleness_max_(staleness_max) {}

  [[nodiscard]] std::int64_t size() const {
    return static_cast<std::int64_t>(selection_.used.size());
  }
  void keep(const Arrival& arrival) { selection_.kept_late.push_back(arrival.id); }

  // Of one facility the first is used, the others stay buffered.
  void use_or_keep(const Arrival& arrival) {
    if (dropped_as_too_stale(arrival)) return;
    if (place_.contains(arrival.facility))
      keep(arrival);
    else
      add(arrival);
  }

  // Of one facility the newest base is used, on equal bases the one that comes last; the others
  // are dropped.
  void use_newest(const Arrival& arrival) {
    if (dropped_as_too_stale(arrival)) return;
    const auto found = place_.find(arrival.facility);
    if (found == place_.end()) return add(arrival);
    Arrival& present = selection_.used[found->second];
    const bool replaces = arrival.base >= present.base;
    const UpdateId older = replaces ? present.id : arrival.id;
    const UpdateId newer = replaces ? arrival.id : present.id;
    selection_.dropped.push_back(
        {older, "a newer update of the same facility, " + newer.str() + ", is used in its place"});
    if (replaces) present = arrival;
  }

  [[nodiscard]] RoundSelection finish() && {
    sort_by_name(selection_.used);
    return std::move(selection_);
  }

 private:
  bool dropped_as_too_stale(const Arrival& arrival) {
    if (!is_too_stale(arrival, version_, staleness_max_)) return false;
    selection_.dropped.push_back({arrival.id, too_stale(arrival, version_, *staleness_max_)});
    return true;
  }

  void add(const Arrival& arrival) {
    place_.emplace(arrival.facility, selection_.used.size());
    selection_.used.push_back(arrival);
  }

  Version version_;
  std::optional<std::int64_t> staleness_max_;
  RoundSelection selection_;
  std::unordered_map<FacilityId, std::size_t> place_;
};

}  // namespace

void sort_by_name(std::vector<Arrival>& arrivals) {
  std::sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) {
    return std::tie(a.facility, a.base, a.id) < std::tie(b.facility, b.base, b.id);
  });
}

RoundSelection select_by_arrival(const RoundState& round,
                                 std::optional<std::int64_t> staleness_max) {
  Selector selector(round.version, staleness_max);
  for (const Arrival& arrival : round.late)
    if (arrival.arrived_in < round.version) selector.use_or_keep(arrival);
  for (const Arrival& arrival : round.counted) selector.use_or_keep(arrival);
  // What was buffered in this very round waits for the next one, whatever else happens.
  for (const Arrival& arrival : round.late)
    if (arrival.arrived_in >= round.version) selector.keep(arrival);
  return std::move(selector).finish();
}

std::int64_t facilities_in(const RoundState& round) {
  std::unordered_set<FacilityId> facilities;
  for (const Arrival& arrival : round.counted) facilities.insert(arrival.facility);
  for (const Arrival& arrival : round.late) facilities.insert(arrival.facility);
  return static_cast<std::int64_t>(facilities.size());
}

RoundSelection select_as_published(const RoundState& round,
                                   std::optional<std::int64_t> staleness_max, std::int64_t quorum) {
  Selector selector(round.version, staleness_max);
  // Late ones first, so that an admitted update wins over a late one of the same base.
  for (const Arrival& arrival : round.late)
    if (arrival.base < round.version) selector.use_newest(arrival);
  for (const Arrival& arrival : round.counted) selector.use_newest(arrival);
  const bool too_few = selector.size() < quorum && facilities_in(round) >= round.enrolled;
  const bool late_ones_too = selector.size() == 0 || too_few;
  for (const Arrival& arrival : round.late) {
    if (arrival.base < round.version) continue;
    if (late_ones_too)
      selector.use_newest(arrival);
    else
      selector.keep(arrival);
  }
  return std::move(selector).finish();
}

bool holds_update_for_this_round(const RoundState& round, const FacilityId& facility,
                                 std::optional<std::int64_t> staleness_max) {
  const auto is_used = [&](const Arrival& arrival) {
    return arrival.facility == facility && !is_too_stale(arrival, round.version, staleness_max);
  };
  return std::any_of(round.counted.begin(), round.counted.end(), is_used) ||
         std::any_of(round.late.begin(), round.late.end(), [&](const Arrival& arrival) {
           return arrival.arrived_in < round.version && is_used(arrival);
         });
}

bool has_used(const RoundSelection& selection, const FacilityId& facility) {
  const auto found = std::lower_bound(
      selection.used.begin(), selection.used.end(), facility,
      [](const Arrival& arrival, const FacilityId& name) { return arrival.facility < name; });
  return found != selection.used.end() && found->facility == facility;
}

std::optional<std::int64_t> staleness_cap(const PolicyConfig& config) {
  if (config.staleness_max && *config.staleness_max < 0) return std::nullopt;
  return config.staleness_max;
}

std::string reason_to_reject(const Arrival& arrival, Version version,
                             std::optional<std::int64_t> staleness_max) {
  if (arrival.steps_run <= 0) return "no local step was run, so the update holds nothing";
  if (arrival.base < 0 || arrival.base > version)
    return "trained from version " + std::to_string(arrival.base) +
           ", which is not published; the newest is " + std::to_string(version);
  if (is_too_stale(arrival, version, staleness_max))
    return too_stale(arrival, version, *staleness_max);
  return {};
}

}  // namespace fedqueue
