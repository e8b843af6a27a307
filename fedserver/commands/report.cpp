#include "fedserver/commands/report.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

namespace fedqueue {

using nlohmann::json;

namespace {

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// A number that may be absent, as "3.2" or "-".
std::string number_or_dash(const json& object, const char* name, const char* format) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return "-";
  return formatted(format, found->get<double>());
}

std::string padded(std::string text, std::size_t width, bool right = false) {
  if (text.size() >= width) return text;
  const std::string blanks(width - text.size(), ' ');
  return right ? blanks + text : text + blanks;
}

std::string accuracy_of(const json& round) {
  const auto found = round.find("evaluation");
  return found == round.end() ? "-" : formatted("%.4f", found->at("accuracy").get<double>());
}

std::string cell_text(const std::string& name, const json& cell) {
  const std::string outcome = cell.at("outcome").get<std::string>();
  std::string text = name + " ";
  if (outcome == "missed") {
    return text + "wait -/" + number_or_dash(cell, "predicted_wait_s", "%.1f") + "s missed";
  }
  text += "wait " + number_or_dash(cell, "queue_wait_s", "%.1f") + "/" +
          number_or_dash(cell, "predicted_wait_s", "%.1f") + "s";
  text += " steps " + std::to_string(cell.at("steps_run").get<long>());
  text += " stale " + std::to_string(cell.at("staleness").get<long>());
  text += " weight " + number_or_dash(cell, "weight", "%.3f");
  return text + " " + outcome;
}

using Row = std::vector<std::string>;

// Columns as wide as their widest cell; the first is left-aligned, the others right-aligned.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += (i > 0 ? "  " : "") + padded(row[i], widths[i], i > 0);
    }
    text += line + "\n";
  }
  return text;
}

struct FacilitySums {
  double wait_s = 0;
  double error_s = 0;
  int waits = 0;
  int predictions = 0;
  int admitted = 0;
  int late = 0;
  int missed = 0;
  double weight = 0;
  long steps = 0;

  void add(const json& cell) {
    const std::string outcome = cell.at("outcome").get<std::string>();
    admitted += outcome == "admitted" ? 1 : 0;
    late += outcome == "late" ? 1 : 0;
    missed += outcome == "missed" ? 1 : 0;
    if (outcome == "missed") return;
    weight += cell.at("weight").get<double>();
    steps += cell.at("steps_run").get<long>();
    if (!cell.contains("queue_wait_s")) return;
    const double wait = cell.at("queue_wait_s").get<double>();
    wait_s += wait;
    ++waits;
    if (!cell.contains("predicted_wait_s")) return;
    error_s += std::abs(wait - cell.at("predicted_wait_s").get<double>());
    ++predictions;
  }
};

}  // namespace

std::string round_line_legend() {
  return "round  accuracy  for each facility: queue wait / predicted, local steps, staleness, "
         "weight, outcome";
}

std::string round_line(const json& round) {
  std::string line = padded(std::to_string(round.at("version").get<long>()), 5, true) + "  " +
                     padded(accuracy_of(round), 8) + "  ";
  bool first = true;
  // Named, since items() refers to it for the whole loop.
  const json cells = round.value("facilities", json::object());
  for (const auto& [name, cell] : cells.items()) {
    line += (first ? "" : " | ") + cell_text(name, cell);
    first = false;
  }
  return line;
}

std::string facility_table(const json& status) {
  std::vector<Row> rows = {{"facility", "samples", "admitted", "late", "missed", "mean wait s",
                            "mean |error| s", "local steps", "sum of weights", "failed jobs",
                            "participation"}};
  for (const auto& [name, facility] : status.at("facilities").items()) {
    FacilitySums sums;
    for (const json& round : status.at("rounds")) {
      const json cells = round.value("facilities", json::object());
      if (cells.contains(name)) sums.add(cells.at(name));
    }
    rows.push_back({name, std::to_string(facility.at("samples").get<long>()),
                    std::to_string(sums.admitted), std::to_string(sums.late),
                    std::to_string(sums.missed),
                    sums.waits > 0 ? formatted("%.2f", sums.wait_s / sums.waits) : "-",
                    sums.predictions > 0 ? formatted("%.2f", sums.error_s / sums.predictions) : "-",
                    std::to_string(sums.steps), formatted("%.3f", sums.weight),
                    std::to_string(facility.at("jobs_failed").get<long>()),
                    formatted("%.3f", facility.at("participation").get<double>())});
  }
  return table(rows);
}

std::string status_text(const json& status) {
  std::string text =
      "run " + status.at("run").get<std::string>() + ": " + status.at("state").get<std::string>();
  const std::string reason = status.at("reason").get<std::string>();
  if (!reason.empty()) text += " (" + reason + ")";
  text += ", policy " + status.at("policy").get<std::string>() + ", version " +
          std::to_string(status.at("version").get<long>());
  const long rounds_max = status.at("rounds_max").get<long>();
  if (rounds_max > 0) text += " of " + std::to_string(rounds_max);
  text += "\n";
  if (status.contains("timer_in_s")) {
    text += "round " + std::to_string(status.at("round").get<long>()) + " open for " +
            number_or_dash(status, "round_open_s", "%.1f") + " s, closes at the latest in " +
            number_or_dash(status, "timer_in_s", "%.1f") + " s; " +
            std::to_string(status.at("updates_counted").get<long>()) + " updates in, " +
            std::to_string(status.at("updates_buffered").get<long>()) + " buffered\n";
  }
  const std::string last_error = status.at("last_error").get<std::string>();
  if (!last_error.empty()) text += "last error: " + last_error + "\n";
  std::vector<Row> rows = {{"facility", "state", "job", "last wait s", "predicted s", "counted",
                            "late", "rejected", "silent s"}};
  for (const auto& [name, facility] : status.at("facilities").items()) {
    rows.push_back({name, facility.at("state").get<std::string>(), facility.value("attempt", "-"),
                    number_or_dash(facility, "last_wait_s", "%.1f"),
                    number_or_dash(facility, "predicted_wait_s", "%.1f"),
                    std::to_string(facility.at("updates_counted").get<long>()),
                    std::to_string(facility.at("updates_late").get<long>()),
                    std::to_string(facility.at("updates_rejected").get<long>()),
                    number_or_dash(facility, "silent_s", "%.0f")});
  }
  text += table(rows);
  const json& rounds = status.at("rounds");
  const std::size_t first = rounds.size() > 5 ? rounds.size() - 5 : 0;
  if (!rounds.empty()) text += round_line_legend() + "\n";
  for (std::size_t i = first; i < rounds.size(); ++i) text += round_line(rounds[i]) + "\n";
  return text;
}

}  // namespace fedqueue
