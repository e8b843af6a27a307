#include "fedclient/settings.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace fedqueue {
namespace {

// A setting that goes to sbatch as it is: "sbatch.account" → --account.
struct SbatchWord {
  const char* name;
  const char* option;
  const char* help;
};
constexpr SbatchWord sbatch_words[] = {
    {"sbatch.partition", "--partition", "Partition of the jobs."},
    {"sbatch.account", "--account", "Account that the jobs are charged to."},
    {"sbatch.qos", "--qos", "Quality of service."},
    {"sbatch.constraint", "--constraint", "Features the nodes must have."},
    {"sbatch.reservation", "--reservation", "Reservation to run in."},
    {"sbatch.clusters", "--clusters", "Cluster to submit to, where there are several."},
    {"sbatch.nodes", "--nodes", "Nodes per job."},
    {"sbatch.ntasks", "--ntasks", "Ranks per job."},
    {"sbatch.ntasks_per_node", "--ntasks-per-node", "Ranks per node."},
    {"sbatch.cpus_per_task", "--cpus-per-task", "CPUs per rank."},
    {"sbatch.gpus", "--gpus", "GPUs per job."},
    {"sbatch.gpus_per_node", "--gpus-per-node", "GPUs per node."},
    {"sbatch.gres", "--gres", "Generic resources per node, as gpu:4."},
    {"sbatch.mem", "--mem", "Memory per node, as 16G."},
    {"sbatch.signal", "--signal", "Signal before the time limit, as B:TERM@120."},
};

std::string home_state() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && state[0] == '/') {
    return state;
  }
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr && home[0] != 0 ? home : ".") + "/.local/state";
}

}  // namespace

std::vector<OptionSpec> job_options() {
  std::vector<OptionSpec> options = {
      {.name = "job_script",
       .kind = Kind::path,
       .help = "The batch script of the facility's jobs.",
       .value_name = "FILE"},
      {.name = "state_dir",
       .kind = Kind::path,
       .help = "Where the agent keeps its jobs; must be seen by the compute nodes. "
               "~/.local/state/fedqueue/RUN/FACILITY if unset.",
       .value_name = "DIR"},
      {.name = "sbatch.time",
       .kind = Kind::seconds,
       .help = "Time limit of the jobs; a plan may ask for less, never for more.",
       .minimum = 60},
      {.name = "sbatch.extra",
       .help = "Further options for sbatch, each as --name=value.",
       .value_name = "OPTION",
       .repeated = true}};
  for (const SbatchWord& word : sbatch_words) {
    options.push_back({.name = word.name, .help = word.help});
  }
  return options;
}

std::vector<OptionSpec> agent_options() {
  return {{.name = "poll_interval",
           .kind = Kind::seconds,
           .built_in = "60",
           .help = "Time between two looks at the queue; longer when the scheduler is slow.",
           .minimum = 0.05,
           .maximum = 3600},
          {.name = "jobs_max",
           .kind = Kind::integer,
           .built_in = "2",
           .help = "Jobs that may be queued or running at the same time.",
           .minimum = 1,
           .maximum = 100},
          {.name = "pending_max",
           .kind = Kind::integer,
           .built_in = "1",
           .help = "Jobs that may be queued at the same time.",
           .minimum = 1,
           .maximum = 100},
          {.name = "settle_time",
           .kind = Kind::seconds,
           .built_in = "20",
           .help = "How long a submission without an answer may take to show in the queue.",
           .minimum = 0,
           .maximum = 3600},
          {.name = "limit_retry",
           .kind = Kind::seconds,
           .built_in = "60",
           .help = "First wait after a limit of the site refused a job; doubled each time.",
           .minimum = 0.05,
           .maximum = 86400},
          {.name = "command_time",
           .kind = Kind::seconds,
           .built_in = "30",
           .help = "After this time a command of the scheduler is killed.",
           .minimum = 0.1,
           .maximum = 3600}};
}

std::vector<OptionSpec> log_options() {
  return {{.name = "log.level",
           .built_in = "info",
           .help = "Least level of the lines that are written.",
           .choices = {"debug", "info", "warning", "error"}},
          {.name = "log.json",
           .kind = Kind::path,
           .help = "Also write JSON lines to this file.",
           .value_name = "FILE"}};
}

std::vector<std::string> trainer_setting_names() {
  return {"dataset",      "device",         "threads",          "batch_size", "momentum",
          "weight_decay", "proximal",       "lr_warm_up_steps", "seed",       "deterministic",
          "watchdog",     "poll",           "progress",         "report",     "reserve",
          "snapshot",     "work_directory", "job_directory",    "plan_key",   "follow"};
}

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
  for (const SbatchWord& word : sbatch_words) {
    if (settings.has(word.name) && !settings.text(word.name).empty()) {
      options.push_back(std::string(word.option) + "=" + settings.text(word.name));
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
