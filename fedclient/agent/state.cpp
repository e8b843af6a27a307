#include "fedclient/agent/state.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "core/base/file.h"

namespace fedqueue {
namespace {

using nlohmann::json;

json job_json(const TrackedJob& job) {
  return {{"token", job.token},
          {"job", job.handle.id},
          {"cluster", job.handle.cluster},
          {"phase", to_text(job.phase)},
          {"state", job.state},
          {"reason", job.reason},
          {"restarts", job.restart_count},
          {"seen", job.seen},
          {"time_limit_s", job.time_limit_s},
          {"detail", job.detail}};
}

TrackedJob job_of(const json& object) {
  TrackedJob job;
  job.token = object.at("token").get<std::string>();
  job.handle = {object.at("job").get<std::string>(), object.at("cluster").get<std::string>()};
  const std::string phase = object.at("phase").get<std::string>();
  job.phase = JobPhase::unknown;
  for (const JobPhase candidate : {JobPhase::queued, JobPhase::running, JobPhase::ended}) {
    if (phase == to_text(candidate)) job.phase = candidate;
  }
  job.state = object.at("state").get<std::string>();
  job.reason = object.at("reason").get<std::string>();
  job.restart_count = object.at("restarts").get<int>();
  job.seen = object.at("seen").get<bool>();
  job.time_limit_s = object.at("time_limit_s").get<double>();
  job.detail = object.at("detail").get<std::string>();
  return job;
}

Result<json> load_json(const std::filesystem::path& path) {
  std::error_code failure;
  if (!std::filesystem::exists(path, failure)) return json();
  Result<std::string> text = read_file(path);
  if (!text) return text.error();
  json document = json::parse(*text, nullptr, false);
  if (document.is_discarded()) {
    return Error{Code::storage, "'" + path.string() + "' is not JSON",
                 "Look at it; if no job of this run is queued or running, delete it."};
  }
  return document;
}

std::string dumped(const json& document) {
  return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

const char* to_text(JobPhase phase) {
  switch (phase) {
    case JobPhase::queued:
      return "queued";
    case JobPhase::running:
      return "running";
    case JobPhase::ended:
      return "ended";
    case JobPhase::unknown:
      break;
  }
  return "unknown";
}

Result<AgentState> AgentStore::load() const {
  Result<json> intent = load_json(directory_ / "intent.json");
  if (!intent) return intent.error();
  Result<json> jobs = load_json(directory_ / "jobs.json");
  if (!jobs) return jobs.error();
  try {
    AgentState state;
    if (!jobs->is_null()) {
      for (const json& object : jobs->at("jobs")) state.jobs.push_back(job_of(object));
    }
    if (intent->is_object() && intent->contains("token")) {
      Intent found;
      found.token = intent->at("token").get<std::string>();
      found.planned = intent->at("planned").get<bool>();
      if (found.planned) found.plan = intent->at("plan").get<PlanAnswer>();
      // Stopped between the two files of a save(): the job is known, the intent is done.
      bool done = false;
      for (const TrackedJob& job : state.jobs) done = done || job.token == found.token;
      if (!done) state.intent = std::move(found);
    }
    return state;
  } catch (const std::exception& exception) {
    return Error{Code::storage,
                 "the agent's state in '" + directory_.string() +
                     "' cannot be understood: " + exception.what(),
                 "Look at intent.json and jobs.json; if no job of this run is queued or running, "
                 "delete both."};
  }
}

Status AgentStore::save(const AgentState& state) const {
  std::error_code failure;
  std::filesystem::create_directories(directory_, failure);
  if (failure) {
    return storage_error("make the directory '" + directory_.string() + "'", failure.value());
  }
  json jobs = json::array();
  for (const TrackedJob& job : state.jobs) jobs.push_back(job_json(job));
  if (Status saved = write_file_atomic(directory_ / "jobs.json", dumped({{"jobs", jobs}}));
      !saved) {
    return saved.error();
  }
  json intent = json::object();
  if (state.intent) {
    intent = {{"token", state.intent->token}, {"planned", state.intent->planned}};
    if (state.intent->planned) intent["plan"] = state.intent->plan;
  }
  return write_file_atomic(directory_ / "intent.json", dumped(intent));
}

void AgentStore::remove_old_jobs(const AgentState& state, std::size_t kept) const {
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> over;
  std::error_code failure;
  for (std::filesystem::directory_iterator entry(directory_ / "jobs", failure), end;
       !failure && entry != end; entry.increment(failure)) {
    const std::string token = entry->path().filename().string();
    const auto has = [&token](const auto& known) { return known.token == token; };
    const bool needed = (state.intent && has(*state.intent)) ||
                        std::any_of(state.jobs.begin(), state.jobs.end(), has);
    std::error_code unknown;
    const auto written = entry->last_write_time(unknown);
    if (!needed && !unknown) over.emplace_back(written, entry->path());
  }
  if (over.size() <= kept) return;
  std::sort(over.begin(), over.end());
  for (std::size_t i = 0; i + kept < over.size(); ++i) {
    std::filesystem::remove_all(over[i].second, failure);
  }
}

}  // namespace fedqueue
