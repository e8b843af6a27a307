// What the cells of a comparison say, policy by policy and as ratios of times to the target.
//
// Rules, fixed before any result was seen:
//   - The time to a target is that of the first of three evaluations in a row at or above it.
//   - A baseline that does not reach the target within the horizon counts the horizon. Ours not
//     reaching it fails that cell: it counts the horizon too, which is never less than the
//     baseline's time, and the number of failed cells stands beside the ratio.
//   - Node-hours to the target are those of our allocations until that time, or until the horizon.
//   - Ratios are ours / theirs of the same setting and seed; below 1 is faster. They are averaged
//     as logarithms, with intervals from a bootstrap over settings and seeds within them.
//   - The best baseline of a setting is the one with the best score on the tuning seeds; at equal
//     settings, the best with untuned options.
//
// Thread safety: pure functions on plain values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulation/experiment/compare.h"
#include "simulation/statistics/statistics.h"

namespace fedqueue::simulation {

struct MeanInterval {
  double mean = 0;
  double low = 0;
  double high = 0;
};

struct TargetSummary {
  double target = 0;
  int reached = 0;    // of `seeds`
  double time_s = 0;  // geometric mean; cells that did not reach it count the horizon
  double low_s = 0;
  double high_s = 0;
  double node_hours = 0;  // geometric mean, until then
};

struct PolicySummary {
  Phase phase = Phase::tuned;
  std::string setting;
  std::string policy;
  Role role = Role::baseline;
  std::string choice;
  int seeds = 0;
  int failed = 0;                      // cells that ended with an error; counted as not reached
  std::vector<TargetSummary> targets;  // the setting's own first
  MeanInterval final_accuracy;
  double node_hours_used = 0;  // means per run, from here on
  double node_hours_wasted = 0;
  double allocation_share = 0;  // of the allocations' time spent in local steps
  double updates_counted = 0;
  double updates_late = 0;
  double updates_dropped = 0;
  double jobs = 0;
  double jobs_failed = 0;
  double versions = 0;
  double steps_run = 0;
  double bytes_up = 0;
  double bytes_down = 0;
  std::map<std::int64_t, std::int64_t> staleness;  // of all seeds together
  std::vector<double> waits_s;                     // of all seeds, sorted
  std::vector<Band> curve;
  std::string first_error;
};

struct RatioSummary {
  std::string name;  // "resident_vs_fedqueue_published"
  Phase phase = Phase::tuned;
  Interval time;
  Interval node_hours;          // to the target
  Interval node_hours_horizon;  // until the horizon, whatever was reached
  int cells_failed = 0;         // ours did not reach the target
  int theirs_unreached = 0;
  double p_value = 1;
  double p_holm = 1;  // corrected for all ratios of the same phase
  std::map<std::string, double> by_setting;
  std::map<std::string, std::string> theirs_by_setting;
};

struct Report {
  Experiment experiment;
  std::vector<PolicySummary> policies;  // by phase, setting, then as in the file
  std::vector<RatioSummary> ratios;
  std::vector<CellResult> examples;  // the first seed's cells, for pictures
  std::size_t cells = 0;
  double wall_seconds = 0;  // of all cells, tuning included
};

[[nodiscard]] Report summarize(const Experiment& experiment, const Choices& choices,
                               const std::map<CellKey, CellResult>& cells);

// Two tables: policies by setting, and ratios. For a terminal.
[[nodiscard]] std::string report_text(const Report& report);
[[nodiscard]] std::string report_json(const Report& report);
// One line per reported cell.
[[nodiscard]] std::string cells_csv(const Experiment& experiment,
                                    const std::map<CellKey, CellResult>& cells);
// One line per policy and setting.
[[nodiscard]] std::string policies_csv(const Report& report);
// A page that needs nothing else: styles and pictures are in it, no script, no request.
[[nodiscard]] std::string report_html(const Report& report);

}  // namespace fedqueue::simulation
