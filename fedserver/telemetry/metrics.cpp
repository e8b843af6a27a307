#include "fedserver/telemetry/metrics.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>

namespace fedqueue {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '\\') {
      out += "\\\\";
    } else if (letter == '"') {
      out += "\\\"";
    } else if (letter == '\n') {
      out += "\\n";
    } else {
      out.push_back(letter);
    }
  }
  return out;
}

std::string rendered(Metrics::Labels labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    out += out.empty() ? "{" : ",";
    out += std::string(name) + "=\"" + escaped(value) + "\"";
  }
  return out.empty() ? out : out + "}";
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  double back = 0;
  char shorter[40];
  std::snprintf(shorter, sizeof shorter, "%.12g", value);
  if (std::sscanf(shorter, "%lf", &back) == 1 && back == value) return shorter;
  return text;
}

}  // namespace

void Metrics::describe(std::string_view name, Kind kind, std::string_view help) {
  const std::lock_guard lock(mutex_);
  Family& family = families_[std::string(name)];
  family.kind = kind;
  family.help = std::string(help);
}

double* Metrics::series(std::string_view name, Labels labels) {
  auto family = families_.find(name);
  if (family == families_.end()) family = families_.emplace(std::string(name), Family{}).first;
  const std::string key = rendered(labels);
  auto found = family->second.series.find(key);
  if (found == family->second.series.end()) {
    if (series_count_ >= series_max) return nullptr;
    ++series_count_;
    found = family->second.series.emplace(key, 0).first;
  }
  return &found->second;
}

void Metrics::add(std::string_view name, double amount, Labels labels) {
  const std::lock_guard lock(mutex_);
  if (double* value = series(name, labels)) *value += amount;
}

void Metrics::set(std::string_view name, double value, Labels labels) {
  const std::lock_guard lock(mutex_);
  if (double* place = series(name, labels)) *place = value;
}

void Metrics::clear(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto family = families_.find(name);
  if (family == families_.end()) return;
  series_count_ -= family->second.series.size();
  family->second.series.clear();
}

void Metrics::before_rendering(std::function<void(Metrics&)> measure) {
  const std::lock_guard lock(mutex_);
  measures_.push_back(std::move(measure));
}

double Metrics::value(std::string_view name, Labels labels) const {
  const std::lock_guard lock(mutex_);
  const auto family = families_.find(name);
  if (family == families_.end()) return 0;
  const auto found = family->second.series.find(rendered(labels));
  return found == family->second.series.end() ? 0 : found->second;
}

std::string Metrics::text() {
  std::vector<std::function<void(Metrics&)>> measures;
  {
    const std::lock_guard lock(mutex_);
    measures = measures_;
  }
  for (const auto& measure : measures) measure(*this);
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, family] : families_) {
    if (family.series.empty()) continue;
    if (!family.help.empty()) out += "# HELP " + name + " " + escaped(family.help) + "\n";
    out += "# TYPE " + name + (family.kind == Kind::counter ? " counter\n" : " gauge\n");
    for (const auto& [labels, value] : family.series) {
      out += name + labels + " " + number(value) + "\n";
    }
  }
  return out;
}

double resident_memory_bytes() {
  std::ifstream in("/proc/self/statm");
  double total = 0;
  double resident = 0;
  if (!(in >> total >> resident)) return 0;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace fedqueue
