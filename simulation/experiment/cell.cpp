#include "simulation/experiment/cell.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace fedqueue::simulation {
namespace {

using nlohmann::json;

// Figures are rounded to what a plot or a table can show, since a comparison has many thousands.
double rounded(double value) { return std::round(value * 1e5) / 1e5; }

json curve_json(const std::vector<CurvePoint>& curve) {
  json result = json::array();
  for (const CurvePoint& point : curve)
    result.push_back({rounded(point.at_s), rounded(point.accuracy), rounded(point.loss),
                      rounded(point.node_seconds)});
  return result;
}

json spans_json(const std::vector<Span>& spans) {
  json result = json::array();
  for (const Span& span : spans) {
    result.push_back({span.facility, span.job, static_cast<int>(span.activity),
                      rounded(span.begin_s), rounded(span.end_s)});
  }
  return result;
}

Phase phase_of(const std::string& text) {
  for (const Phase phase : {Phase::tuning, Phase::tuned, Phase::equal})
    if (text == to_text(phase)) return phase;
  throw json::other_error::create(501, "unknown phase " + text, nullptr);
}

CellResult from(const json& document) {
  CellResult result;
  const json& key = document.at("key");
  result.key = {phase_of(key.at("phase")), key.at("setting"), key.at("policy"), key.at("seed"),
                key.at("choice")};
  document.at("error").get_to(result.error);
  for (const json& point : document.at("curve"))
    result.curve.push_back({point.at(0), point.at(1), point.at(2), point.at(3)});
  document.at("final_accuracy").get_to(result.final_accuracy);
  document.at("best_accuracy").get_to(result.best_accuracy);
  document.at("node_seconds_used").get_to(result.node_seconds_used);
  document.at("node_seconds_wasted").get_to(result.node_seconds_wasted);
  document.at("training_seconds").get_to(result.training_seconds);
  document.at("steps_run").get_to(result.steps_run);
  document.at("versions").get_to(result.versions);
  document.at("updates_counted").get_to(result.updates_counted);
  document.at("updates_late").get_to(result.updates_late);
  document.at("updates_dropped").get_to(result.updates_dropped);
  for (const json& pair : document.at("staleness")) result.staleness[pair.at(0)] = pair.at(1);
  document.at("bytes_up").get_to(result.bytes_up);
  document.at("bytes_down").get_to(result.bytes_down);
  document.at("jobs").get_to(result.jobs);
  document.at("jobs_failed").get_to(result.jobs_failed);
  document.at("queue_waits_s").get_to(result.queue_waits_s);
  for (const json& span : document.at("spans")) {
    result.spans.push_back({span.at(0), span.at(1), static_cast<Activity>(span.at(2).get<int>()),
                            span.at(3), span.at(4)});
  }
  document.at("wall_seconds").get_to(result.wall_seconds);
  return result;
}

}  // namespace

const char* to_text(Phase phase) {
  switch (phase) {
    case Phase::tuning:
      return "tuning";
    case Phase::tuned:
      return "tuned";
    case Phase::equal:
      return "equal";
  }
  return "";
}

const char* to_text(Activity activity) {
  switch (activity) {
    case Activity::waiting:
      return "waiting";
    case Activity::launching:
      return "launching";
    case Activity::training:
      return "training";
    case Activity::transferring:
      return "transferring";
    case Activity::idle:
      return "idle";
  }
  return "";
}

std::string to_text(const CellKey& key) {
  return std::string(to_text(key.phase)) + " " + key.setting + " " + key.policy + " seed " +
         std::to_string(key.seed) + (key.choice == "-" ? "" : " " + key.choice);
}

std::string encode(const CellResult& result) {
  json staleness = json::array();
  for (const auto& [versions, count] : result.staleness) staleness.push_back({versions, count});
  json waits = json::array();
  for (const double wait : result.queue_waits_s) waits.push_back(rounded(wait));
  const json document = {{"key",
                          {{"phase", to_text(result.key.phase)},
                           {"setting", result.key.setting},
                           {"policy", result.key.policy},
                           {"seed", result.key.seed},
                           {"choice", result.key.choice}}},
                         {"error", result.error},
                         {"curve", curve_json(result.curve)},
                         {"final_accuracy", result.final_accuracy},
                         {"best_accuracy", result.best_accuracy},
                         {"node_seconds_used", rounded(result.node_seconds_used)},
                         {"node_seconds_wasted", rounded(result.node_seconds_wasted)},
                         {"training_seconds", rounded(result.training_seconds)},
                         {"steps_run", result.steps_run},
                         {"versions", result.versions},
                         {"updates_counted", result.updates_counted},
                         {"updates_late", result.updates_late},
                         {"updates_dropped", result.updates_dropped},
                         {"staleness", staleness},
                         {"bytes_up", result.bytes_up},
                         {"bytes_down", result.bytes_down},
                         {"jobs", result.jobs},
                         {"jobs_failed", result.jobs_failed},
                         {"queue_waits_s", waits},
                         {"spans", spans_json(result.spans)},
                         {"wall_seconds", rounded(result.wall_seconds)}};
  return document.dump();
}

Result<CellResult> decode_cell(std::string_view line) {
  try {
    return from(json::parse(line));
  } catch (const json::exception& exception) {
    return Error{Code::data, std::string("read a cell's result: ") + exception.what(),
                 "Remove the line, or the file to begin anew."};
  }
}

}  // namespace fedqueue::simulation
