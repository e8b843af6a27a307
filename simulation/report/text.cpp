// The report as tables for a terminal.
#include "core/base/text.h"

#include <algorithm>
#include <cstdio>

#include "simulation/report/summary.h"

namespace fedqueue::simulation {
namespace {

using Row = std::vector<std::string>;

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::size_t shown_width(const std::string& text) {
  std::size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return width;
}

// The first column to the left, figures to the right.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], shown_width(row[i]));
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - shown_width(row[i]), ' ');
      line += (i == 0 ? row[i] + padding : "  " + padding + row[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

Row policy_row(const PolicySummary& policy) {
  const TargetSummary& target = policy.targets.front();
  Row row = {"  " + policy.policy,
             number(target.time_s, 1),
             "[" + number(target.low_s, 1) + ", " + number(target.high_s, 1) + "]",
             std::to_string(target.reached) + "/" + std::to_string(policy.seeds),
             number(100 * policy.final_accuracy.mean, 1),
             number(target.node_hours, 3),
             number(policy.node_hours_used, 3),
             number(policy.node_hours_wasted, 3),
             number(100 * policy.allocation_share, 0),
             number(policy.updates_counted, 0),
             number(policy.updates_late, 0),
             number(policy.updates_dropped, 0),
             number((policy.bytes_up + policy.bytes_down) / 1e6, 0),
             policy.choice};
  if (policy.failed > 0) row.push_back(std::to_string(policy.failed) + " failed");
  return row;
}

std::string setting_table(const Report& report, Phase phase, const Setting& setting) {
  std::vector<Row> rows = {{"  policy", "time s", "95 %", "reached", "final %", "node-h", "to end",
                            "wasted", "used %", "counted", "late", "dropped", "MB", "options"}};
  std::vector<Row> others;
  std::string errors;
  for (const PolicySummary& policy : report.policies) {
    if (policy.phase != phase || policy.setting != setting.name) continue;
    rows.push_back(policy_row(policy));
    if (!policy.first_error.empty())
      errors += "  " + policy.policy + ": " + policy.first_error + "\n";
  }
  return setting.name + ": " + to_text(setting.world) + ", target " +
         number(100 * setting.target, 1) + " %, horizon " + number(setting.horizon_s, 0) + " s\n" +
         table(rows) + errors + "\n";
}

Row ratio_row(const RatioSummary& ratio) {
  return {"  " + ratio.name,
          number(ratio.time.estimate, 3),
          "[" + number(ratio.time.low, 3) + ", " + number(ratio.time.high, 3) + "]",
          number(100 * (1 - ratio.time.estimate), 0),
          std::to_string(ratio.time.pairs),
          std::to_string(ratio.cells_failed),
          std::to_string(ratio.theirs_unreached),
          number(ratio.node_hours.estimate, 2) + " [" + number(ratio.node_hours.low, 2) + ", " +
              number(ratio.node_hours.high, 2) + "]",
          number(ratio.p_holm, 4)};
}

}  // namespace

std::string report_text(const Report& report) {
  std::string text;
  for (const Phase phase : {Phase::tuned, Phase::equal}) {
    text += phase == Phase::tuned
                ? "Tuned: every policy with the options it did best with on other seeds\n\n"
                : "Equal settings: every policy with its untuned options\n\n";
    for (const Setting& setting : report.experiment.settings)
      text += setting_table(report, phase, setting);
    std::vector<Row> rows = {{"  ratio of times to the target", "ratio", "95 %", "less %", "pairs",
                              "failed", "unreached", "node-h to target", "p (Holm)"}};
    for (const RatioSummary& ratio : report.ratios)
      if (ratio.phase == phase) rows.push_back(ratio_row(ratio));
    if (rows.size() > 1) text += table(rows) + "\n";
  }
  return text +
         "node-h: of our allocations to the target, to end: until the horizon. "
         "Times are virtual. Runs that do not reach the target count the horizon; 'failed' counts "
         "those of ours,\n'unreached' those of the other. Intervals: bootstrap over settings and "
         "seeds.\n";
}

}  // namespace fedqueue::simulation
