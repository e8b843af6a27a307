// The report for programs: JSON and CSV.
#include <nlohmann/json.hpp>
#include <sstream>

#include "simulation/report/summary.h"

namespace fedqueue::simulation {
namespace {

using nlohmann::json;

json interval_json(const Interval& interval) {
  return {{"ratio", interval.estimate},
          {"low", interval.low},
          {"high", interval.high},
          {"pairs", interval.pairs},
          {"settings", interval.clusters}};
}

json ratio_json(const RatioSummary& ratio) {
  json document = interval_json(ratio.time);
  document["reduction_percent"] = 100 * (1 - ratio.time.estimate);
  document["cells_failed"] = ratio.cells_failed;
  document["theirs_unreached"] = ratio.theirs_unreached;
  document["p_value"] = ratio.p_value;
  document["p_value_holm"] = ratio.p_holm;
  document["node_hours"] = interval_json(ratio.node_hours);
  document["node_hours_until_horizon"] = interval_json(ratio.node_hours_horizon);
  document["by_setting"] = ratio.by_setting;
  document["theirs_by_setting"] = ratio.theirs_by_setting;
  return document;
}

json targets_json(const std::vector<TargetSummary>& targets) {
  json list = json::array();
  for (const TargetSummary& target : targets) {
    list.push_back({{"target", target.target},
                    {"reached", target.reached},
                    {"time_s", target.time_s},
                    {"low_s", target.low_s},
                    {"high_s", target.high_s},
                    {"node_hours", target.node_hours}});
  }
  return list;
}

json staleness_json(const PolicySummary& policy) {
  json result = json::object();
  for (const auto& [versions, count] : policy.staleness) result[std::to_string(versions)] = count;
  return result;
}

json waits_json(const PolicySummary& policy) {
  if (policy.waits_s.empty()) return nullptr;
  double sum = 0;
  for (const double wait : policy.waits_s) sum += wait;
  return {{"count", policy.waits_s.size()},
          {"mean_s", sum / static_cast<double>(policy.waits_s.size())},
          {"median_s", quantile_of_sorted(policy.waits_s, 0.5)},
          {"p90_s", quantile_of_sorted(policy.waits_s, 0.9)},
          {"max_s", policy.waits_s.back()}};
}

json policy_json(const PolicySummary& policy) {
  json curve = json::array();
  for (const Band& band : policy.curve)
    curve.push_back({band.at_s, band.mean, band.low, band.high});
  return {{"setting", policy.setting},
          {"policy", policy.policy},
          {"role", to_text(policy.role)},
          {"options", policy.choice},
          {"seeds", policy.seeds},
          {"failed", policy.failed},
          {"first_error", policy.first_error},
          {"targets", targets_json(policy.targets)},
          {"final_accuracy",
           {{"mean", policy.final_accuracy.mean},
            {"low", policy.final_accuracy.low},
            {"high", policy.final_accuracy.high}}},
          {"node_hours_used", policy.node_hours_used},
          {"node_hours_wasted", policy.node_hours_wasted},
          {"allocation_share", policy.allocation_share},
          {"updates_counted", policy.updates_counted},
          {"updates_late", policy.updates_late},
          {"updates_dropped", policy.updates_dropped},
          {"jobs", policy.jobs},
          {"jobs_failed", policy.jobs_failed},
          {"versions", policy.versions},
          {"steps_run", policy.steps_run},
          {"bytes_up", policy.bytes_up},
          {"bytes_down", policy.bytes_down},
          {"staleness", staleness_json(policy)},
          {"queue_waits", waits_json(policy)},
          {"curve", curve}};
}

const char* key_of(Phase phase) { return phase == Phase::tuned ? "ratios" : "ratios_equal"; }

// Options hold blanks and '=', never a comma or a quote.
std::string quoted(const std::string& text) { return "\"" + text + "\""; }

}  // namespace

std::string report_json(const Report& report) {
  json settings = json::array();
  for (const Setting& setting : report.experiment.settings) {
    json document = {{"name", setting.name}};
    for (const auto& [name, value] : setting.options()) document[name] = value;
    settings.push_back(document);
  }
  json document = {{"experiment", report.experiment.name},
                   {"seeds", report.experiment.reported_seeds()},
                   {"tuning_seeds", report.experiment.seeds_for_tuning()},
                   {"tuning_budget", report.experiment.tuning_budget},
                   {"settings", settings},
                   {"cells", report.cells},
                   {"computing_seconds", report.wall_seconds},
                   {"ratios", json::object()},
                   {"ratios_equal", json::object()},
                   {"tuned", json::array()},
                   {"equal", json::array()}};
  for (const RatioSummary& ratio : report.ratios)
    document[key_of(ratio.phase)][ratio.name] = ratio_json(ratio);
  for (const PolicySummary& policy : report.policies)
    document[to_text(policy.phase)].push_back(policy_json(policy));
  return document.dump(2) + "\n";
}

std::string cells_csv(const Experiment& experiment, const std::map<CellKey, CellResult>& cells) {
  std::ostringstream out;
  out << "phase,setting,policy,seed,options,target,time_to_target_s,node_hours_to_target,final_"
         "accuracy,best_accuracy,"
         "node_hours_used,node_hours_wasted,training_hours,steps_run,versions,updates_counted,"
         "updates_late,updates_dropped,jobs,jobs_failed,bytes_up,bytes_down,error\n";
  for (const auto& [key, cell] : cells) {
    const Setting* setting = experiment.setting(key.setting);
    if (setting == nullptr) continue;
    const auto reached = time_to_target_s(cell.curve, setting->target);
    std::string error = cell.error;
    for (char& c : error)
      if (c == '"' || c == '\n') c = ' ';
    out << to_text(key.phase) << ',' << key.setting << ',' << key.policy << ',' << key.seed << ','
        << quoted(key.choice) << ',' << setting->target << ','
        << (reached ? std::to_string(*reached) : "") << ','
        << (reached ? std::to_string(node_seconds_at(cell.curve, *reached) / 3600) : "") << ','
        << cell.final_accuracy << ',' << cell.best_accuracy << ',' << cell.node_seconds_used / 3600
        << ',' << cell.node_seconds_wasted / 3600 << ',' << cell.training_seconds / 3600 << ','
        << cell.steps_run << ',' << cell.versions << ',' << cell.updates_counted << ','
        << cell.updates_late << ',' << cell.updates_dropped << ',' << cell.jobs << ','
        << cell.jobs_failed << ',' << cell.bytes_up << ',' << cell.bytes_down << ','
        << quoted(error) << '\n';
  }
  return out.str();
}

std::string policies_csv(const Report& report) {
  std::ostringstream out;
  out << "phase,setting,policy,role,options,seeds,failed,target,reached,time_s,low_s,high_s,"
         "node_hours,final_accuracy,node_hours_used,node_hours_wasted,allocation_share,updates_"
         "counted,"
         "updates_late,updates_dropped,bytes_up,bytes_down\n";
  for (const PolicySummary& policy : report.policies) {
    for (const TargetSummary& target : policy.targets) {
      out << to_text(policy.phase) << ',' << policy.setting << ',' << policy.policy << ','
          << to_text(policy.role) << ',' << quoted(policy.choice) << ',' << policy.seeds << ','
          << policy.failed << ',' << target.target << ',' << target.reached << ',' << target.time_s
          << ',' << target.low_s << ',' << target.high_s << ',' << target.node_hours << ','
          << policy.final_accuracy.mean << ',' << policy.node_hours_used << ','
          << policy.node_hours_wasted << ',' << policy.allocation_share << ','
          << policy.updates_counted << ',' << policy.updates_late << ',' << policy.updates_dropped
          << ',' << policy.bytes_up << ',' << policy.bytes_down << '\n';
    }
  }
  return out.str();
}

}  // namespace fedqueue::simulation
