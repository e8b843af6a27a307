#include "fedserver/http/target.h"

#include <vector>

#include "core/base/ids.h"
#include "core/base/text.h"

namespace fedqueue::http {
namespace {

std::optional<Route> route_of(const std::vector<std::string>& parts) {
  if (parts.size() == 1) return Route::status;
  const std::string& what = parts[1];
  if (parts.size() == 2) {
    if (what == "plans") return Route::plans;
    if (what == "jobs") return Route::jobs;
    if (what == "evaluations") return Route::evaluations;
    if (what == "events") return Route::events;
    if (what == "stop") return Route::stop;
    return std::nullopt;
  }
  if (parts[2].empty()) return std::nullopt;
  if (parts.size() == 3) {
    if (what == "jobs") return Route::job;
    if (what == "models") return parts[2] == "latest" ? Route::latest : Route::model;
    if (what == "updates") return Route::update;
    return std::nullopt;
  }
  if (parts.size() == 4 && what == "jobs" && parts[3] == "heartbeat") return Route::heartbeat;
  return std::nullopt;
}

}  // namespace

const char* to_text(Route route) {
  switch (route) {
    case Route::status:
      return "status";
    case Route::plans:
      return "plans";
    case Route::jobs:
      return "jobs";
    case Route::heartbeat:
      return "heartbeat";
    case Route::job:
      return "job";
    case Route::latest:
      return "latest";
    case Route::model:
      return "model";
    case Route::update:
      return "update";
    case Route::evaluations:
      return "evaluations";
    case Route::events:
      return "events";
    case Route::stop:
      return "stop";
    case Route::health:
      return "healthz";
    case Route::metrics:
      return "metrics";
    case Route::page:
      return "page";
  }
  return "page";
}

Result<Target> parse_target(std::string_view text) {
  Target target;
  const std::string_view whole = text.substr(0, 200);
  if (const std::size_t mark = text.find('?'); mark != std::string_view::npos) {
    target.query = std::string(text.substr(mark + 1));
    text = text.substr(0, mark);
  }
  const Error unknown{Code::not_found, "there is nothing at '" + std::string(whole) + "'",
                      "Check the server's address in the configuration; docs/protocol.md lists "
                      "what can be asked."};
  if (text == "/") return target;
  if (text == "/healthz" || text == "/metrics") {
    target.route = text == "/healthz" ? Route::health : Route::metrics;
    return target;
  }
  constexpr std::string_view prefix = "/v1/runs/";
  if (!text.starts_with(prefix)) return unknown;
  text.remove_prefix(prefix.size());
  if (text.ends_with('/') && text.find('/') + 1 == text.size()) text.remove_suffix(1);
  const std::vector<std::string> parts = split(text, '/');
  if (parts.empty() || !is_name(parts[0])) return unknown;
  const std::optional<Route> route = route_of(parts);
  if (!route || (parts.size() > 2 && parts[2].empty())) return unknown;
  target.route = *route;
  target.run = parts[0];
  if (parts.size() > 2) target.id = parts[2];
  return target;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
  for (const std::string& pair : split(query, '&')) {
    const std::size_t equals = pair.find('=');
    if (equals != std::string::npos && std::string_view(pair).substr(0, equals) == name) {
      return pair.substr(equals + 1);
    }
  }
  return std::nullopt;
}

}  // namespace fedqueue::http
