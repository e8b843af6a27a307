#include "fedclient/options.h"

#include "fedclient/recipe/training_settings.h"
#include "fedclient/trainer/client_options.h"

namespace fedqueue {

const std::vector<SbatchWord>& sbatch_words() {
  static const std::vector<SbatchWord> words = {
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
  return words;
}

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
  for (const SbatchWord& word : sbatch_words()) {
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
  std::vector<std::string> names = {
      "deterministic", "watchdog",       "poll",          "progress", "report",         "reserve",
      "snapshot",      "work_directory", "job_directory", "plan_key", "follow",         "bin",
      "launcher",      "oversubscribe",  "mpi_btl",       "libexec",  "loader_threads", "bucket"};
  for (const std::string& name : option_names(computing_options())) names.push_back(name);
  for (const std::string& name : option_names(training_options())) names.push_back(name);
  return names;
}

std::vector<std::string> agent_setting_names() {
  return option_names(all_of({job_options(), agent_options(), log_options()}));
}

}  // namespace fedqueue
