#include "fedserver/telemetry/status_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace fedqueue {
namespace {

using nlohmann::json;

constexpr const char* dash = "–";

constexpr const char* style = R"(
:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
dl{display:flex;flex-wrap:wrap;gap:.3rem 2rem;margin:.6rem 0}dt{font-size:.8rem;opacity:.7}
dd{margin:0;font-weight:600}dl>div{min-width:5rem}
table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.25rem .5rem;
border-bottom:1px solid #8884}th:first-child,td:first-child,td.text{text-align:left}
.bad{color:#c22}.scroll{overflow-x:auto}svg{width:100%;height:auto}
polyline{fill:none;stroke:#27c;stroke-width:2}circle{fill:#27c}
svg text{font-size:11px;fill:currentColor;opacity:.75}line{stroke:#8886})";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out.push_back(letter);
    }
  }
  return out;
}

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

const json* find(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const json& object, const char* name) {
  const json* value = find(object, name);
  if (value == nullptr) return dash;
  if (value->is_string()) {
    const std::string text = value->get<std::string>();
    return text.empty() ? dash : escaped(text);
  }
  return escaped(value->dump());
}

std::string number_of(const json& object, const char* name, const char* pattern) {
  const json* value = find(object, name);
  return value != nullptr && value->is_number() ? format(pattern, value->get<double>()) : dash;
}

// 90 s, 12 min, 3.5 h: what a person would say.
std::string duration_of(const json& object, const char* name) {
  const json* value = find(object, name);
  if (value == nullptr || !value->is_number()) return dash;
  const double seconds = value->get<double>();
  if (std::abs(seconds) < 120) return format("%.1f s", seconds);
  if (std::abs(seconds) < 7200) return format("%.0f min", seconds / 60);
  return format("%.1f h", seconds / 3600);
}

std::string figure(const char* title, const std::string& value) {
  return std::string("<div><dt>") + title + "</dt><dd>" + value + "</dd></div>";
}

std::vector<std::pair<double, double>> accuracies(const json& status) {
  std::vector<std::pair<double, double>> points;
  const json* evaluations = find(status, "evaluations");
  if (evaluations == nullptr || !evaluations->is_object()) return points;
  for (const auto& [version, evaluation] : evaluations->items()) {
    const json* accuracy = find(evaluation, "accuracy");
    if (accuracy == nullptr || !accuracy->is_number()) continue;
    points.emplace_back(std::atof(version.c_str()), accuracy->get<double>());
  }
  std::sort(points.begin(), points.end());
  return points;
}

// Accuracy over versions as an inline drawing.
std::string accuracy_drawing(const json& status) {
  const auto points = accuracies(status);
  if (points.empty()) return "<p>No version has been evaluated yet.</p>";
  constexpr double width = 720;
  constexpr double height = 200;
  constexpr double left = 40;
  constexpr double bottom = 180;
  constexpr double top = 12;
  const double first = points.front().first;
  const double last = std::max(points.back().first, first + 1);
  std::string line;
  for (const auto& [version, accuracy] : points) {
    const double x = left + (version - first) / (last - first) * (width - left - 10);
    const double y = bottom - std::clamp(accuracy, 0.0, 1.0) * (bottom - top);
    line += format("%.1f", x) + "," + format("%.1f ", y);
  }
  std::string out = "<svg viewBox=\"0 0 " + format("%.0f ", width) + format("%.0f", height) +
                    "\" role=\"img\" aria-label=\"Accuracy over versions\">";
  for (const double level : {0.0, 0.5, 1.0}) {
    const std::string y = format("%.1f", bottom - level * (bottom - top));
    out += "<line x1=\"40\" x2=\"710\" y1=\"" + y + "\" y2=\"" + y + "\"/><text x=\"2\" y=\"" + y +
           "\">" + format("%.0f %%", level * 100) + "</text>";
  }
  out += "<polyline points=\"" + line + "\"/>";
  const auto& [version, accuracy] = points.back();
  out += "<text x=\"40\" y=\"196\">version " + format("%.0f", first) + "</text>" +
         "<text x=\"710\" y=\"196\" text-anchor=\"end\">version " + format("%.0f", version) + ": " +
         format("%.2f %%", accuracy * 100) + "</text></svg>";
  return out;
}

// The newest round in which the facility's update counted.
const json* newest_cell(const json& status, const std::string& facility) {
  const json* rounds = find(status, "rounds");
  if (rounds == nullptr || !rounds->is_array()) return nullptr;
  for (auto round = rounds->rbegin(); round != rounds->rend(); ++round) {
    const json* cells = find(*round, "facilities");
    const json* cell = cells == nullptr ? nullptr : find(*cells, facility.c_str());
    if (cell != nullptr) return cell;
  }
  return nullptr;
}

std::string facilities_table(const json& status) {
  const json* facilities = find(status, "facilities");
  if (facilities == nullptr || facilities->empty()) return "<p>No facility is enrolled yet.</p>";
  std::string out =
      "<div class=\"scroll\"><table><thead><tr><th>facility</th><th>state</th><th>last wait</th>"
      "<th>predicted wait</th><th>staleness</th><th>weight</th><th>counted</th><th>late</th>"
      "<th>rejected</th><th>last error</th></tr></thead><tbody>";
  for (const auto& [name, facility] : facilities->items()) {
    const json* cell = newest_cell(status, name);
    const json nothing;
    const json& round = cell == nullptr ? nothing : *cell;
    out += "<tr><td>" + escaped(name) + "</td><td>" + text_of(facility, "state") + "</td><td>" +
           duration_of(facility, "last_wait_s") + "</td><td>" +
           duration_of(facility, "predicted_wait_s") + "</td><td>" +
           number_of(round, "staleness", "%.0f") + "</td><td>" +
           number_of(round, "weight", "%.4f") + "</td><td>" +
           number_of(facility, "updates_counted", "%.0f") + "</td><td>" +
           number_of(facility, "updates_late", "%.0f") + "</td><td>" +
           number_of(facility, "updates_rejected", "%.0f") + "</td><td class=\"text bad\">" +
           text_of(facility, "last_error") + "</td></tr>";
  }
  return out + "</tbody></table></div>";
}

std::string rounds_table(const json& status) {
  const json* rounds = find(status, "rounds");
  if (rounds == nullptr || !rounds->is_array() || rounds->empty()) return "";
  std::string out =
      "<h2>Newest rounds</h2><div class=\"scroll\"><table><thead><tr><th>version</th>"
      "<th>closed by</th><th>open</th><th>updates</th><th>step norm</th></tr></thead><tbody>";
  constexpr int shown_max = 10;
  int shown = 0;
  for (auto round = rounds->rbegin(); round != rounds->rend() && shown < shown_max; ++round) {
    const json* cells = find(*round, "facilities");
    out += "<tr><td>" + number_of(*round, "version", "%.0f") + "</td><td>" +
           text_of(*round, "cause") + "</td><td>" + duration_of(*round, "open_s") + "</td><td>" +
           std::to_string(cells == nullptr ? 0 : cells->size()) + "</td><td>" +
           number_of(*round, "step_norm", "%.4g") + "</td></tr>";
    ++shown;
  }
  return out + "</tbody></table></div>";
}

}  // namespace

std::string status_page(std::string_view text) {
  const json status = json::parse(text, nullptr, false);
  const std::string run = text_of(status, "run");
  std::string out =
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\">"
      "<meta http-equiv=\"refresh\" content=\"10\"><title>" +
      run + " – FedQueue</title><style>" + style + "</style></head><body><h1>Run " + run +
      "</h1><dl>";
  out += figure("state", text_of(status, "state"));
  out += figure("policy", text_of(status, "policy"));
  out += figure("version", number_of(status, "version", "%.0f"));
  out += figure("round", number_of(status, "round", "%.0f"));
  out += figure("round open", duration_of(status, "round_open_s"));
  out += figure("timer in", duration_of(status, "timer_in_s"));
  out += figure("counted", number_of(status, "updates_counted", "%.0f"));
  out += figure("buffered", number_of(status, "updates_buffered", "%.0f"));
  out += figure("server up", duration_of(status, "uptime_s")) + "</dl>";
  for (const char* name : {"reason", "last_error"}) {
    const std::string what = text_of(status, name);
    if (what != dash) out += "<p class=\"bad\">" + what + "</p>";
  }
  out += "<h2>Accuracy</h2>" + accuracy_drawing(status);
  out += "<h2>Facilities</h2>" + facilities_table(status) + rounds_table(status);
  return out + "</body></html>\n";
}

}  // namespace fedqueue
