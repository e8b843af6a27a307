// The report as one page.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/text.h"
#include "simulation/report/summary.h"
#include "simulation/report/svg.h"

namespace fedqueue::simulation {
namespace {

constexpr int kColours = 10;
// Spans of a Gantt chart that are longer than this share of it say on hover what they are.
constexpr double kNamedShare = 0.01;
// Colours of the activities in a Gantt chart, by Activity.
constexpr int kActivityColours[] = {8, 4, 2, 5, 1};

const char* const kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --ink: #1c2430; --soft: #66707d; --rule: #d9dee5; --back: #ffffff;
  --p0: #0b62c4; --p1: #d1495b; --p2: #2a9d62; --p3: #8a4fbf; --p4: #c98a12; --p5: #1a9aa8;
  --p6: #7a5c43; --p7: #d06fb0; --p8: #9aa4b1; --p9: #556b2f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --soft: #98a3b1; --rule: #333c48;
  --back: #12161c; --p0: #5aa2f0; --p1: #f07b8b; --p2: #5fd39a; --p3: #bb8cf0; --p4: #e8b64c;
  --p5: #58cfdc; --p6: #c09c80; --p7: #f0a5d6; --p8: #6a7480; --p9: #a5bf70; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .86rem; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--rule);
  white-space: nowrap; }
th { color: var(--soft); font-weight: 600; } th:first-child, td:first-child { text-align: left; }
tr.ours td:first-child { font-weight: 700; }
p.note, summary { color: var(--soft); }
svg { width: 100%; height: auto; max-width: 820px; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); }
.grid { stroke: var(--rule); stroke-width: 1; } .axis { stroke: var(--soft); stroke-width: 1; }
.level { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 5 4; }
.line { fill: none; stroke-width: 2; stroke: var(--c); } .band { fill: var(--c); opacity: .15; }
.bar { fill: var(--c); } .bars { stroke: var(--c); }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em;
  background: var(--c); }
.c0 { --c: var(--p0); } .c1 { --c: var(--p1); } .c2 { --c: var(--p2); } .c3 { --c: var(--p3); }
.c4 { --c: var(--p4); } .c5 { --c: var(--p5); } .c6 { --c: var(--p6); } .c7 { --c: var(--p7); }
.c8 { --c: var(--p8); } .c9 { --c: var(--p9); }
</style>
)";

std::string number(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string row(const std::vector<std::string>& cells, const char* tag, const char* css = "") {
  std::string html =
      std::string("<tr") + (*css != 0 ? " class=\"" + std::string(css) + "\"" : "") + ">";
  for (const std::string& cell : cells)
    html += "<" + std::string(tag) + ">" + escaped(cell) + "</" + tag + ">";
  return html + "</tr>\n";
}

std::string staleness_text(const PolicySummary& policy) {
  std::int64_t all = 0;
  double sum = 0;
  std::int64_t most = 0;
  for (const auto& [versions, count] : policy.staleness) {
    all += count;
    sum += static_cast<double>(versions) * static_cast<double>(count);
    most = std::max(most, versions);
  }
  if (all == 0) return "–";
  return number(sum / static_cast<double>(all), 1) + " / " + std::to_string(most);
}

std::string targets_text(const PolicySummary& policy) {
  std::vector<std::string> parts;
  for (const TargetSummary& target : policy.targets) {
    parts.push_back(number(100 * target.target, 0) + " %: " + number(target.time_s, 1) + " (" +
                    std::to_string(target.reached) + "/" + std::to_string(policy.seeds) + ")");
  }
  return join(parts, ", ");
}

std::string policy_table(const Report& report, Phase phase, const std::string& setting) {
  std::string html =
      "<div class=\"wide\"><table>\n" +
      row({"policy", "time s", "95 %", "times by target (reached)", "final %", "95 %",
           "node-hours to target", "to horizon", "wasted", "training share %", "counted", "late",
           "dropped", "staleness mean / most", "jobs", "failed", "MB up", "MB down", "options"},
          "th");
  for (const PolicySummary& policy : report.policies) {
    if (policy.phase != phase || policy.setting != setting) continue;
    const TargetSummary& target = policy.targets.front();
    html += row({policy.policy, number(target.time_s, 1),
                 number(target.low_s, 1) + " – " + number(target.high_s, 1), targets_text(policy),
                 number(100 * policy.final_accuracy.mean, 1),
                 number(100 * policy.final_accuracy.low, 1) + " – " +
                     number(100 * policy.final_accuracy.high, 1),
                 number(target.node_hours, 3), number(policy.node_hours_used, 3),
                 number(policy.node_hours_wasted, 3), number(100 * policy.allocation_share, 1),
                 number(policy.updates_counted, 1), number(policy.updates_late, 1),
                 number(policy.updates_dropped, 1), staleness_text(policy), number(policy.jobs, 1),
                 number(policy.jobs_failed, 1), number(policy.bytes_up / 1e6, 1),
                 number(policy.bytes_down / 1e6, 1), policy.choice},
                "td", policy.role == Role::ours ? "ours" : "");
  }
  return html + "</table></div>\n";
}

std::string interval_text(const Interval& interval) {
  return number(interval.estimate, 2) + " (" + number(interval.low, 2) + " – " +
         number(interval.high, 2) + ")";
}

std::string ratio_table(const Report& report, Phase phase) {
  std::string html =
      "<div class=\"wide\"><table>\n" +
      row({"ratio of times to the target", "ratio", "95 %", "less %", "pairs", "ours not reached",
           "theirs not reached", "node-hours to target", "to horizon", "p (Holm)", "by setting"},
          "th");
  for (const RatioSummary& ratio : report.ratios) {
    if (ratio.phase != phase) continue;
    std::vector<std::string> settings;
    for (const auto& [setting, value] : ratio.by_setting)
      settings.push_back(setting + " " + number(value, 2) + " (" +
                         ratio.theirs_by_setting.at(setting) + ")");
    html += row({ratio.name, number(ratio.time.estimate, 3),
                 number(ratio.time.low, 3) + " – " + number(ratio.time.high, 3),
                 number(100 * (1 - ratio.time.estimate), 0), std::to_string(ratio.time.pairs),
                 std::to_string(ratio.cells_failed), std::to_string(ratio.theirs_unreached),
                 interval_text(ratio.node_hours), number(ratio.node_hours_horizon.estimate, 2),
                 number(ratio.p_holm, 4), join(settings, ", ")},
                "td");
  }
  return html + "</table></div>\n";
}

std::string curves(const Report& report, Phase phase, const Setting& setting) {
  ChartFrame frame;
  frame.x_title = "virtual time, s";
  frame.y_title = "accuracy, %";
  frame.x_max = setting.horizon_s;
  frame.y_percent = true;
  frame.level = setting.target;
  std::vector<ChartLine> lines;
  int colour = 0;
  for (const PolicySummary& policy : report.policies) {
    if (policy.phase != phase || policy.setting != setting.name) continue;
    ChartLine line;
    line.name = policy.policy;
    line.colour = colour++ % kColours;
    for (const Band& band : policy.curve) {
      line.x.push_back(band.at_s);
      line.y.push_back(band.mean);
      line.low.push_back(band.low);
      line.high.push_back(band.high);
    }
    lines.push_back(std::move(line));
  }
  return line_chart(frame, lines);
}

// Share of jobs that waited at most so long.
std::string waits(const Report& report, Phase phase, const Setting& setting) {
  ChartFrame frame;
  frame.x_title = "queue wait, s (logarithmic)";
  frame.y_title = "jobs, %";
  frame.x_logarithmic = true;
  frame.y_percent = true;
  frame.x_min = 0.01;
  frame.x_max = 1;
  frame.height = 220;
  std::vector<ChartLine> lines;
  int colour = 0;
  for (const PolicySummary& policy : report.policies) {
    if (policy.phase != phase || policy.setting != setting.name) continue;
    ChartLine line;
    line.name = policy.policy;
    line.colour = colour++ % kColours;
    if (policy.waits_s.empty()) continue;
    constexpr int kPoints = 200;
    for (int i = 0; i <= kPoints; ++i) {
      const double share = static_cast<double>(i) / kPoints;
      line.x.push_back(quantile_of_sorted(policy.waits_s, share));
      line.y.push_back(share);
    }
    frame.x_max = std::max(frame.x_max, policy.waits_s.back());
    lines.push_back(std::move(line));
  }
  return lines.empty() ? "<p class=\"note\">No job started.</p>" : line_chart(frame, lines);
}

std::string activity_key() {
  std::string html = "<p class=\"key note\">";
  for (const Activity activity : {Activity::waiting, Activity::launching, Activity::training,
                                  Activity::transferring, Activity::idle}) {
    html += "<span class=\"c" + std::to_string(kActivityColours[static_cast<int>(activity)]) +
            "\"></span>" + to_text(activity);
  }
  return html + "</p>\n";
}

std::string gantt(const CellResult& cell, const Setting& setting) {
  std::vector<BarRow> rows;
  for (int facility = 0; facility < setting.facilities; ++facility)
    rows.push_back({"facility-" + std::to_string(facility + 1), {}});
  std::vector<Span> spans = cell.spans;
  // What happens inside an allocation is drawn over the wait of the next job.
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return (a.activity == Activity::waiting) > (b.activity == Activity::waiting);
  });
  for (const Span& span : spans) {
    if (span.facility < 0 || span.facility >= setting.facilities) continue;
    // Nobody points at short ones.
    const bool named =
        (span.activity == Activity::waiting || span.activity == Activity::training) &&
        span.end_s - span.begin_s > kNamedShare * setting.horizon_s;
    rows[static_cast<std::size_t>(span.facility)].bars.push_back(
        {span.begin_s, span.end_s, kActivityColours[static_cast<int>(span.activity)],
         named ? std::string(to_text(span.activity)) + ", job " + std::to_string(span.job) + ", " +
                     number(span.begin_s, 1) + "–" + number(span.end_s, 1) + " s"
               : std::string()});
  }
  return "<h3>" + escaped(cell.key.policy) + ", seed " + std::to_string(cell.key.seed) + "</h3>\n" +
         bar_rows(rows, setting.horizon_s, "virtual time, s");
}

// Of the tuned runs alone: they are most of the page.
std::string gantts(const Report& report, Phase phase, const Setting& setting) {
  std::string html;
  if (phase != Phase::tuned) return html;
  for (const CellResult& cell : report.examples) {
    if (cell.key.phase == phase && cell.key.setting == setting.name && !cell.spans.empty())
      html += gantt(cell, setting);
  }
  if (html.empty()) return "";
  return "<details><summary>Facilities over time (first seed)</summary>\n" + activity_key() + html +
         "</details>\n";
}

// Of the node-hours: in local steps behind counted updates, in other steps, and neither.
std::string shares(const Report& report, Phase phase, const Setting& setting) {
  std::vector<BarRow> rows;
  for (const PolicySummary& policy : report.policies) {
    if (policy.phase != phase || policy.setting != setting.name) continue;
    const double wasted =
        policy.node_hours_used > 0 ? policy.node_hours_wasted / policy.node_hours_used : 0;
    const double training = 100 * policy.allocation_share;
    rows.push_back({policy.policy,
                    {{0, training, 2, "training " + number(training, 1) + " %"},
                     {training, 100, 1,
                      "not training " + number(100 - training, 1) + " %; wasted altogether " +
                          number(100 * wasted, 1) + " %"}}});
  }
  return bar_rows(rows, 100, "share of the allocations' time spent training, %");
}

std::string setting_part(const Report& report, Phase phase, const Setting& setting) {
  std::string html = "<h3>" + escaped(setting.name) + "</h3>\n<p class=\"note\">" +
                     to_text(setting.world) + ", " + std::to_string(setting.facilities) +
                     " facilities, " + escaped(setting.model) + ", " + escaped(setting.division) +
                     (setting.division == "dirichlet" ? " " + number(setting.alpha, 2) : "") +
                     ", target " + number(100 * setting.target, 1) + " %, horizon " +
                     number(setting.horizon_s, 0) + " s</p>\n";
  html += curves(report, phase, setting) + policy_table(report, phase, setting.name);
  html += "<h3>Use of allocations</h3>\n" + shares(report, phase, setting);
  html += "<h3>Queue waits</h3>\n" + waits(report, phase, setting);
  return html + gantts(report, phase, setting);
}

std::string phase_part(const Report& report, Phase phase) {
  std::string html =
      phase == Phase::tuned
          ? "<h2>Tuned</h2>\n<p class=\"note\">Every policy with the options it did "
            "best with on seeds that are not reported, all with the same budget.</p>\n"
          : "<h2>Equal settings</h2>\n<p class=\"note\">Every policy with its untuned "
            "options.</p>\n";
  html += ratio_table(report, phase);
  for (const Setting& setting : report.experiment.settings)
    html += setting_part(report, phase, setting);
  return html;
}

std::string options_part(const Report& report) {
  std::string html = "<details><summary>Settings in full</summary><div class=\"wide\"><table>\n";
  std::vector<std::string> head = {"option"};
  for (const Setting& setting : report.experiment.settings) head.push_back(setting.name);
  html += row(head, "th");
  const auto names = report.experiment.settings.front().options();
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string> cells = {names[i].first};
    for (const Setting& setting : report.experiment.settings)
      cells.push_back(setting.options()[i].second);
    html += row(cells, "td");
  }
  return html + "</table></div></details>\n";
}

}  // namespace

std::string report_html(const Report& report) {
  const std::string name = escaped(report.experiment.name);
  std::string html = std::string(kHead) + "<title>" + name + "</title></head><body>\n<h1>" + name +
                     "</h1>\n<p class=\"note\">" +
                     std::to_string(report.experiment.reported_seeds().size()) +
                     " paired seeds, bands and intervals 95 %. Times are virtual; a run that does "
                     "not reach the target counts the horizon. Ratios below 1 are faster.</p>\n";
  for (const Phase phase : {Phase::tuned, Phase::equal}) html += phase_part(report, phase);
  return html + options_part(report) + "</body></html>\n";
}

}  // namespace fedqueue::simulation
