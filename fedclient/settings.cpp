#include "fedclient/settings.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace fedqueue {
namespace {

std::string home_state() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && state[0] == '/') {
    return state;
  }
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr && home[0] != 0 ? home : ".") + "/.local/state";
}

}  // namespace

std::filesystem::path state_directory(const Settings& settings, const RunId& run,
                                      const std::string& facility) {
  if (settings.has("state_dir")) return std::filesystem::absolute(settings.path("state_dir"));
  return std::filesystem::path(home_state()) / "fedqueue" / run.str() / facility;
}

AgentSettings agent_settings(const Settings& settings) {
  AgentSettings agent;
  agent.poll_interval = settings.duration("poll_interval");
  agent.poll_longest = std::max(agent.poll_longest, agent.poll_interval);
  agent.jobs_max = static_cast<int>(settings.integer("jobs_max"));
  agent.pending_max = static_cast<int>(settings.integer("pending_max"));
  agent.settle_time = settings.duration("settle_time");
  agent.limit_retry = settings.duration("limit_retry");
  agent.limit_retry_longest = std::max(agent.limit_retry_longest, agent.limit_retry);
  // Where jobs last seconds, so do the waits around them.
  agent.cancel_interval = std::min(agent.cancel_interval, agent.poll_interval * 2);
  agent.once = settings.flag("once");
  agent.cancel_on_exit = settings.flag("cancel_on_exit");
  return agent;
}

std::vector<std::string> sbatch_options(const Settings& settings) {
  std::vector<std::string> options;
  for (const SbatchWord& word : sbatch_words()) {
    if (settings.has(word.name) && !settings.text(word.name).empty()) {
      options.push_back(word.option + "=" + settings.text(word.name));
    }
  }
  for (const std::string& extra : settings.list("sbatch.extra")) options.push_back(extra);
  return options;
}

Result<AgentJobProfile> job_profile(const Settings& settings, const LinkConfig& link,
                                    const std::string& facility,
                                    const std::filesystem::path& kit_directory) {
  if (!settings.has("job_script")) {
    return Error{Code::usage, "job_script is not set, so there is nothing to submit",
                 "Copy a batch script from the installed examples, adapt it to this cluster, and "
                 "name it with --job_script or in the configuration."};
  }
  AgentJobProfile profile;
  profile.run = link.run;
  profile.facility = FacilityId(facility);
  profile.script = std::filesystem::absolute(settings.path("job_script"));
  if (::access(profile.script.c_str(), R_OK) != 0) {
    return Error{Code::usage, "the batch script '" + profile.script.string() + "' cannot be read",
                 "Correct job_script."};
  }
  if (settings.has("sbatch.time")) profile.time_limit_s = settings.real("sbatch.time");
  const std::string kit = std::filesystem::absolute(kit_directory).string();
  profile.environment = {{"FEDQUEUE_SERVER", link.server_url}, {"FEDQUEUE_KIT", kit}};
  profile.plugin_options = {{"fed-run", link.run.str()},
                            {"fed-server", link.server_url},
                            {"fed-facility", facility},
                            {"fed-kit", kit}};
  if (!settings.user_file().empty()) {
    const std::string file = std::filesystem::absolute(settings.user_file()).string();
    profile.environment["FEDQUEUE_CONFIG"] = file;
    profile.plugin_options["fed-config"] = file;
  }
  return profile;
}

SlurmSettings slurm_settings(const Settings& settings, const RunId& run,
                             const std::string& facility,
                             std::map<std::string, std::string> environment, const Log& log) {
  SlurmSettings slurm;
  slurm.run = run;
  slurm.facility = FacilityId(facility);
  slurm.options = sbatch_options(settings);
  if (settings.has("sbatch.clusters")) slurm.clusters = {settings.text("sbatch.clusters")};
  slurm.environment = std::move(environment);
  slurm.command_time = settings.duration("command_time");
  slurm.submit_time = slurm.command_time * 2;
  slurm.log = log;
  return slurm;
}

Result<Log> make_log(const Settings& settings, const std::string& component) {
  LogOptions options;
  options.threshold = log_level_named(settings.text("log.level")).value_or(LogLevel::info);
  if (settings.has("log.json")) options.json_file = settings.path("log.json");
  return Log::create(options, component);
}

}  // namespace fedqueue
