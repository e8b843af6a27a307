// Which resource a request's target names. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace fedqueue::http {

enum class Route {
  status,       // /v1/runs/{run}
  plans,        // /v1/runs/{run}/plans
  jobs,         // /v1/runs/{run}/jobs
  heartbeat,    // /v1/runs/{run}/jobs/{attempt}/heartbeat
  job,          // /v1/runs/{run}/jobs/{attempt}
  latest,       // /v1/runs/{run}/models/latest
  model,        // /v1/runs/{run}/models/{version}
  update,       // /v1/runs/{run}/updates/{id}
  evaluations,  // /v1/runs/{run}/evaluations
  events,       // /v1/runs/{run}/events
  stop,         // /v1/runs/{run}/stop
  health,       // /healthz
  metrics,      // /metrics
  page,         // /
};

// A short word for logs and metrics.
[[nodiscard]] const char* to_text(Route route);

struct Target {
  Route route = Route::page;
  std::string run;    // empty for the last three
  std::string id;     // attempt, version or update
  std::string query;  // after the question mark
};

// not_found names what was asked for. Names need no escapes, so a percent sign is never part of
// one.
[[nodiscard]] Result<Target> parse_target(std::string_view text);

// The value of `name` in a query of plain words.
[[nodiscard]] std::optional<std::string> query_value(std::string_view query, std::string_view name);

}  // namespace fedqueue::http
