// One simulated federation of a comparison: which one (the key), and what came of it.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "simulation/statistics/statistics.h"

namespace fedqueue::simulation {

// tuning: to choose options; tuned: reported, with the chosen ones; equal: reported, every policy
// with its untuned options.
enum class Phase { tuning, tuned, equal };
[[nodiscard]] const char* to_text(Phase phase);

struct CellKey {
  Phase phase = Phase::tuned;
  std::string setting;
  std::string policy;
  std::uint64_t seed = 1;
  std::string choice = "-";  // the tuned options as text
  friend auto operator<=>(const CellKey&, const CellKey&) = default;
};

[[nodiscard]] std::string to_text(const CellKey& key);

enum class Activity { waiting, launching, training, transferring, idle };
[[nodiscard]] const char* to_text(Activity activity);

// What a facility's allocation (or its job in the queue) was doing. Times in virtual seconds.
struct Span {
  int facility = 0;
  std::int64_t job = 0;
  Activity activity = Activity::waiting;
  double begin_s = 0;
  double end_s = 0;
};

struct CellResult {
  CellKey key;
  std::string error;  // empty: it ran to its end

  std::vector<CurvePoint> curve;  // at equal intervals from 0
  double final_accuracy = 0;
  double best_accuracy = 0;

  double node_seconds_used = 0;    // of our allocations
  double node_seconds_wasted = 0;  // of those, not behind a counted update
  double training_seconds = 0;     // of those, in local steps
  std::int64_t steps_run = 0;
  std::int64_t versions = 0;
  std::int64_t updates_counted = 0;
  std::int64_t updates_late = 0;
  std::int64_t updates_dropped = 0;                // rejected, or buffered and never used
  std::map<std::int64_t, std::int64_t> staleness;  // of counted updates: how many with which
  std::int64_t bytes_up = 0;
  std::int64_t bytes_down = 0;
  std::int64_t jobs = 0;
  std::int64_t jobs_failed = 0;
  std::vector<double> queue_waits_s;
  std::vector<Span> spans;
  double wall_seconds = 0;  // real ones, that computing it took
};

// One line of JSON, and back.
[[nodiscard]] std::string encode(const CellResult& result);
[[nodiscard]] Result<CellResult> decode_cell(std::string_view line);

}  // namespace fedqueue::simulation
