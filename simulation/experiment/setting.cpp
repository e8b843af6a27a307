#include "simulation/experiment/setting.h"

#include <algorithm>
#include <functional>
#include <sstream>

#include "core/base/assert.h"
#include "core/base/text.h"

namespace fedqueue::simulation {
namespace {

struct Option {
  std::string name;
  std::function<Status(Setting&, std::string_view)> read;
  std::function<std::string(const Setting&)> write;
};

Error expected(const std::string& what, std::string_view value) {
  return Error{Code::usage, "expected " + what + ", got '" + std::string(value) + "'", ""};
}

Status read_into(double& out, std::string_view value) {
  const auto number = parse_real(value);
  if (!number) return expected("a number", value);
  out = *number;
  return {};
}
Status read_into(std::int64_t& out, std::string_view value) {
  const auto number = parse_integer(value);
  if (!number) return expected("a whole number", value);
  out = *number;
  return {};
}
Status read_into(int& out, std::string_view value) {
  const auto number = parse_integer(value);
  if (!number || *number < -1000000 || *number > 1000000) return expected("a whole number", value);
  out = static_cast<int>(*number);
  return {};
}
Status read_into(bool& out, std::string_view value) {
  if (value != "true" && value != "false") return expected("true or false", value);
  out = value == "true";
  return {};
}
Status read_into(std::string& out, std::string_view value) {
  out = std::string(value);
  return {};
}
Status read_into(WorldKind& out, std::string_view value) {
  for (const WorldKind kind : {WorldKind::lognormal, WorldKind::fixed, WorldKind::off,
                               WorldKind::replay, WorldKind::site}) {
    if (value == to_text(kind)) {
      out = kind;
      return {};
    }
  }
  return expected("lognormal, fixed, off, replay or site", value);
}
Status read_into(std::vector<double>& out, std::string_view value) {
  std::vector<double> list;
  for (const std::string& part : split(value, ',')) {
    const auto number = parse_real(trim(part));
    if (!number) return expected("numbers with commas between them", value);
    list.push_back(*number);
  }
  out = list;
  return {};
}
template <typename T>
Status read_into(std::optional<T>& out, std::string_view value) {
  if (value == "none") {
    out.reset();
    return {};
  }
  T inner{};
  if (Status status = read_into(inner, value); !status) return status;
  out = inner;
  return {};
}

std::string written(double value) {
  for (int digits = 6;; ++digits) {
    std::ostringstream out;
    out.precision(digits);
    out << value;
    if (digits >= 17 || parse_real(out.str()) == value) return out.str();
  }
}
std::string written(std::int64_t value) { return std::to_string(value); }
std::string written(int value) { return std::to_string(value); }
std::string written(bool value) { return value ? "true" : "false"; }
std::string written(const std::string& value) { return value; }
std::string written(WorldKind value) { return to_text(value); }
std::string written(const std::vector<double>& list) {
  std::vector<std::string> parts;
  for (const double value : list) parts.push_back(written(value));
  return join(parts, ", ");
}
template <typename T>
std::string written(const std::optional<T>& value) {
  return value ? written(*value) : "none";
}

template <typename T>
Option option(std::string name, T Setting::*member) {
  return {std::move(name),
          [member](Setting& setting, std::string_view value) {
            return read_into(setting.*member, trim(value));
          },
          [member](const Setting& setting) { return written(setting.*member); }};
}

const std::vector<Option>& table() {
  using S = Setting;
  static const std::vector<Option> options = {
      option("world", &S::world),
      option("queue_mean", &S::queue_mean_s),
      option("queue_sigma", &S::queue_sigma),
      option("queue_fixed", &S::queue_fixed_s),
      option("trace", &S::trace),
      option("time_scale", &S::time_scale),
      option("site_nodes", &S::site_nodes),
      option("job_nodes", &S::job_nodes),
      option("background", &S::background),
      option("site_load", &S::site_load),
      option("site_warm_up", &S::site_warm_up_s),
      option("eligible_jobs_max", &S::eligible_jobs_max),
      option("submitted_jobs_max", &S::submitted_jobs_max),
      option("limit_max", &S::limit_max_s),
      option("early_submission", &S::early_submission),
      option("job_time_limit", &S::job_time_limit_s),
      option("facilities", &S::facilities),
      option("step_seconds", &S::step_s),
      option("step_jitter", &S::step_jitter),
      option("launch_seconds", &S::launch_s),
      option("latency", &S::latency_s),
      option("bandwidth", &S::bandwidth_bytes_per_s),
      option("failure_rate", &S::failure_rate),
      option("poll_interval", &S::poll_s),
      option("model", &S::model),
      option("division", &S::division),
      option("alpha", &S::alpha),
      option("shards", &S::shards),
      option("samples_max", &S::samples_max),
      option("batch", &S::batch),
      option("momentum", &S::momentum),
      option("evaluation_samples", &S::evaluation_samples),
      option("horizon", &S::horizon_s),
      option("evaluation_interval", &S::evaluation_interval_s),
      option("target", &S::target),
      option("targets_shown", &S::targets_shown),
  };
  return options;
}

bool all_at_least(const std::vector<double>& list, double least) {
  return !list.empty() &&
         std::all_of(list.begin(), list.end(), [&](double value) { return value >= least; });
}

bool all_above_zero(const std::vector<double>& list) {
  return !list.empty() &&
         std::all_of(list.begin(), list.end(), [](double value) { return value > 0; });
}

}  // namespace

const char* to_text(WorldKind world) {
  switch (world) {
    case WorldKind::lognormal:
      return "lognormal";
    case WorldKind::fixed:
      return "fixed";
    case WorldKind::off:
      return "off";
    case WorldKind::replay:
      return "replay";
    case WorldKind::site:
      return "site";
  }
  return "";
}

double value_for(const std::vector<double>& list, int facility) {
  FEDQUEUE_ASSERT(!list.empty() && facility >= 0);
  return list[std::min(static_cast<std::size_t>(facility), list.size() - 1)];
}

Status Setting::set(std::string_view option_name, std::string_view value) {
  std::vector<std::string> names;
  for (const Option& candidate : table()) {
    if (candidate.name == option_name) {
      Status read = candidate.read(*this, value);
      if (!read) return within("set " + candidate.name, read.error());
      return {};
    }
    names.push_back(candidate.name);
  }
  const std::string meant = nearest(option_name, names);
  return Error{
      Code::usage, "'" + std::string(option_name) + "' is not an option of a setting",
      meant.empty() ? "The options are " + join(names, ", ") + "." : "Did you mean " + meant + "?"};
}

std::vector<std::pair<std::string, std::string>> Setting::options() const {
  std::vector<std::pair<std::string, std::string>> result;
  for (const Option& candidate : table())
    result.emplace_back(candidate.name, candidate.write(*this));
  return result;
}

bool Setting::reads_trace() const {
  return world == WorldKind::replay || (world == WorldKind::site && background == "trace");
}

Status Setting::validate() const {
  const auto wrong = [&](const std::string& what) {
    return Error{Code::usage, "check the setting " + name + ": " + what,
                 "Change the experiment's file."};
  };
  if (!all_at_least(queue_mean_s, 0) || !all_at_least(queue_fixed_s, 0) || queue_sigma < 0)
    return wrong("queue waits and queue_sigma must not be negative");
  if (reads_trace() && trace.empty())
    return wrong("this world needs trace, the path of a log in the Standard Workload Format");
  if (background != "model" && background != "trace")
    return wrong("background is '" + background + "', expected model or trace");
  if (division != "iid" && division != "dirichlet" && division != "shards")
    return wrong("division is '" + division + "', expected iid, dirichlet or shards");
  if (!(time_scale > 0) || !(site_load > 0) || site_warm_up_s < 0)
    return wrong("time_scale and site_load must be positive, site_warm_up not negative");
  if (site_nodes < 1 || job_nodes < 1 || job_nodes > site_nodes)
    return wrong("job_nodes must lie between 1 and site_nodes");
  if (facilities < 1 || batch < 1 || shards < 1 || !(alpha > 0) || momentum < 0)
    return wrong("facilities, batch, shards and alpha must be positive, momentum not negative");
  if (!all_above_zero(step_s) || !all_above_zero(bandwidth_bytes_per_s))
    return wrong("step_seconds and bandwidth must be positive");
  if (!all_at_least(launch_s, 0) || !all_at_least(latency_s, 0) || step_jitter < 0)
    return wrong("launch_seconds, latency and step_jitter must not be negative");
  if (failure_rate < 0 || failure_rate > 1) return wrong("failure_rate must lie between 0 and 1");
  if (!(job_time_limit_s > 0) || !(horizon_s > 0) || !(evaluation_interval_s > 0) || !(poll_s > 0))
    return wrong("job_time_limit, horizon, evaluation_interval and poll_interval must be positive");
  if (!(target > 0) || target > 1) return wrong("target must lie between 0 and 1");
  return {};
}

}  // namespace fedqueue::simulation
