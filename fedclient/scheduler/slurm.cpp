#include "fedclient/scheduler/slurm.h"

#include <algorithm>
#include <ctime>

#include "core/base/text.h"
#include "fedclient/scheduler/slurm_text.h"

namespace fedqueue {
namespace {

// What would change the commands' behaviour behind our back, as it does inside a job.
std::map<std::string, std::string> scrubbed(std::map<std::string, std::string> environment) {
  std::erase_if(environment, [](const auto& entry) {
    const std::string& name = entry.first;
    if (name == "SLURM_CONF") return false;
    return name.rfind("SLURM_", 0) == 0 || name.rfind("SQUEUE_", 0) == 0 ||
           name.rfind("SCANCEL_", 0) == 0 || name.rfind("SACCT_", 0) == 0 ||
           name.rfind("_SLURM_SPANK_OPTION_", 0) == 0;
  });
  return environment;
}

Error not_started(const std::string& program, const Error& cause) {
  if (cause.code != Code::not_found) return cause;
  return {Code::scheduler_missing, "'" + program + "' is not installed here",
          "Run the agent on a login node of the cluster, or load Slurm's module first."};
}

std::vector<std::string> on_cluster(std::vector<std::string> arguments,
                                    const std::string& cluster) {
  if (!cluster.empty()) arguments.insert(arguments.begin() + 1, {"-M", cluster});
  return arguments;
}

}  // namespace

SlurmScheduler::SlurmScheduler(SlurmSettings settings)
    : settings_(std::move(settings)),
      environment_(scrubbed(settings_.environment)),
      prefix_("fedqueue:" + settings_.run.str() + ":" + settings_.facility.str() + ":"),
      clusters_(settings_.clusters.begin(), settings_.clusters.end()) {
  clusters_.insert("");
}

void SlurmScheduler::know_cluster(const std::string& cluster) { clusters_.insert(cluster); }

Result<CommandResult> SlurmScheduler::run(std::vector<std::string> arguments, Duration time_max,
                                          const std::map<std::string, std::string>& more,
                                          bool query) {
  CommandLine command;
  command.arguments = std::move(arguments);
  command.environment = environment_;
  for (const auto& [name, value] : more) command.environment[name] = value;
  if (query) {  // times as seconds since 1970, from whatever zone
    command.environment["SLURM_TIME_FORMAT"] = "%s";
    command.environment["TZ"] = "UTC";
  }
  command.time_max = time_max;
  const std::string program = command.arguments.front();
  Result<CommandResult> result = run_command(command);
  if (!result) return not_started(program, result.error());
  settings_.log.debug("command", {{"line", shell_text(command.arguments)},
                                  {"exit_code", result->exit_code},
                                  {"timed_out", result->timed_out}});
  if (result->timed_out) {
    return Error{Code::try_again,
                 program + " did not end within " + std::to_string(to_seconds(time_max)) +
                     " s and was killed",
                 "The controller may be busy; it is asked again later."};
  }
  return result;
}

bool SlurmScheduler::has_plugin() {
  if (!plugin_) {
    Result<CommandResult> help = run({"sbatch", "--help"}, settings_.command_time, {}, false);
    if (!help) return false;  // asked again next time
    plugin_ = help->output.find("--fed-run") != std::string::npos;
    settings_.log.info(*plugin_ ? "the plugin is installed here"
                                : "the plugin is not installed here; jobs are told by their "
                                  "environment");
  }
  return *plugin_;
}

std::vector<std::string> SlurmScheduler::submit_arguments(const JobRequest& request) {
  std::vector<std::string> arguments = {"sbatch", "--parsable", "--comment=" + request.comment,
                                        "--job-name=" + request.name};
  arguments.insert(arguments.end(), settings_.options.begin(), settings_.options.end());
  if (request.time_limit_s > 0) arguments.push_back("--time=" + slurm_time(request.time_limit_s));
  arguments.push_back("--output=" + request.output.string());
  arguments.push_back("--open-mode=append");  // a requeued job goes on in the same file
  if (!request.plugin_options.empty() && has_plugin()) {
    for (const auto& [name, value] : request.plugin_options) {
      arguments.push_back("--" + name + "=" + value);
    }
  }
  arguments.push_back(request.script.string());
  return arguments;
}

Result<JobHandle> SlurmScheduler::submit(const JobRequest& request) {
  Result<CommandResult> result =
      run(submit_arguments(request), settings_.submit_time, request.environment, false);
  if (!result) return result.error();
  if (result->exit_code != 0) return slurm_error("sbatch refused the job", result->errors);
  Result<JobHandle> handle = parse_parsable(result->output);
  if (handle) know_cluster(handle->cluster);
  return handle;
}

Result<std::vector<JobView>> SlurmScheduler::squeue(const std::string& cluster) {
  Result<CommandResult> result = run(
      on_cluster({"squeue", "--noheader", "--me", "--states=all", "-O", squeue_format()}, cluster),
      settings_.command_time, {}, true);
  if (!result) return result.error();
  if (result->exit_code != 0) {
    Error error = slurm_error("squeue failed", result->errors);
    if (error.code == Code::scheduler_refused) error.code = Code::scheduler;
    if (error.code == Code::scheduler_limit) error.code = Code::try_again;
    return error;
  }
  return parse_squeue(result->output, prefix_, cluster, static_cast<double>(std::time(nullptr)));
}

Result<std::vector<JobView>> SlurmScheduler::poll() {
  std::vector<JobView> all;
  // The default cluster is not asked where every job is known to be on a named one.
  for (const std::string& cluster : std::set<std::string>(clusters_)) {
    if (cluster.empty() && clusters_.size() > 1) continue;
    Result<std::vector<JobView>> views = squeue(cluster);
    // One silent cluster makes the whole picture unknown: absence must not be read from it.
    if (!views) return views.error();
    all.insert(all.end(), views->begin(), views->end());
  }
  return all;
}

Result<std::optional<JobView>> SlurmScheduler::find_by_token(const std::string& token) {
  Result<std::vector<JobView>> views = poll();
  if (!views) return views.error();
  std::optional<JobView> found;
  for (const JobView& view : *views) {
    if (view.token != token) continue;
    // A live one counts more than one that ended.
    if (!found || found->phase == JobPhase::ended) found = view;
  }
  return found;
}

Result<JobOutcome> SlurmScheduler::outcome(const JobHandle& handle) {
  Result<CommandResult> shown =
      run(on_cluster({"scontrol", "-o", "show", "job", handle.id}, handle.cluster),
          settings_.command_time, {}, true);
  if (!shown) return shown.error();
  if (shown->exit_code == 0) {
    // An array's first id shows all its tasks; ours is the one with exactly this id.
    for (const std::string& line : split(shown->output, '\n')) {
      const std::string id = scontrol_field(line, "JobId").value_or("");
      const std::optional<std::string> array = scontrol_field(line, "ArrayJobId");
      const std::string task =
          array ? *array + "_" + scontrol_field(line, "ArrayTaskId").value_or("") : id;
      if (id == handle.id || task == handle.id) return parse_scontrol(line);
    }
  } else if (const Error error = slurm_error("scontrol failed", shown->errors);
             error.code == Code::try_again) {
    return error;
  }
  if (!sacct_works_) return JobOutcome();
  Result<CommandResult> recorded =
      run(on_cluster({"sacct", "-X", "-n", "-P", "-o", "State,ExitCode", "-j", handle.id},
                     handle.cluster),
          settings_.command_time, {}, true);
  if (!recorded || recorded->exit_code != 0) {
    sacct_works_ = false;  // many sites have no accounting: not a word more about it
    return JobOutcome();
  }
  return parse_sacct(recorded->output);
}

Result<CancelReport> SlurmScheduler::cancel(const std::vector<JobView>& jobs) {
  for (const JobView& job : jobs) know_cluster(job.handle.cluster);
  // squeue --me shows this user's jobs alone, so a fitting line proves owner and token.
  Result<std::vector<JobView>> views = poll();
  if (!views) return within("check the owner before cancelling", views.error());
  CancelReport report;
  std::map<std::string, std::vector<std::string>> by_cluster;
  for (const JobView& job : jobs) {
    const bool ours = std::any_of(views->begin(), views->end(), [&](const JobView& view) {
      return view.handle == job.handle && view.token == job.token && view.phase != JobPhase::ended;
    });
    if (ours) {
      by_cluster[job.handle.cluster].push_back(job.handle.id);
    } else {
      report.not_ours.push_back(job.handle.id);
    }
  }
  for (const auto& [cluster, ids] : by_cluster) {
    for (std::size_t at = 0; at < ids.size(); at += settings_.cancel_chunk) {
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(at);
      const auto end = ids.begin() + static_cast<std::ptrdiff_t>(
                                         std::min(ids.size(), at + settings_.cancel_chunk));
      std::vector<std::string> arguments = on_cluster({"scancel"}, cluster);
      arguments.insert(arguments.end(), begin, end);
      Result<CommandResult> result = run(arguments, settings_.command_time, {}, false);
      if (!result) return result.error();
      if (result->exit_code != 0) {
        Error error = slurm_error("scancel failed", result->errors);
        if (error.code != Code::try_again) error.code = Code::scheduler;
        return error;
      }
      report.cancelled.insert(report.cancelled.end(), begin, end);
    }
  }
  return report;
}

}  // namespace fedqueue
