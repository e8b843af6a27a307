#include <unistd.h>

#include <iostream>
#include <random>
#include <system_error>

#include "core/base/file.h"
#include "fedclient/agent_server.h"
#include "fedclient/commands.h"
#include "fedclient/session/session_loop.h"
#include "fedclient/settings.h"
#include "fedclient/signals.h"
#include "fedclient/trainer/client_options.h"

extern char** environ;

namespace fedqueue {
namespace {

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// What agent and submit share.
struct Site {
  Log log;
  Connection connection;
  AgentJobProfile profile;
  AgentStore store;
  SlurmScheduler scheduler;
};

Result<std::unique_ptr<Site>> make_site(const Settings& settings) {
  Result<Log> log = make_log(settings, "agent");
  if (!log) return log.error();
  Result<Connection> connection = find_connection(settings, variable, *log);
  if (!connection) return connection.error();
  const RunId run = connection->link.run;
  const std::string facility = connection->name;
  const Log named = log->with({{"run", run}, {"facility", facility}});
  for (const std::string& note : connection->notes) named.warning(note);
  connection->link.log = named.for_component("link");
  Result<AgentJobProfile> profile =
      job_profile(settings, connection->link, facility, connection->link.certificate.parent_path());
  if (!profile) return profile.error();
  const std::filesystem::path directory = state_directory(settings, run, facility);
  return std::make_unique<Site>(
      Site{named, std::move(*connection), std::move(*profile), AgentStore(directory),
           SlurmScheduler(slurm_settings(settings, run, facility, whole_environment(),
                                         named.for_component("scheduler")))});
}

AgentLoopSettings loop_settings(const AgentJobProfile& profile) {
  AgentLoopSettings loop;
  loop.profile = profile;
  loop.now = steady_instant;
  loop.sleep_until = [](Instant until) {
    if (until > steady_instant()) sleep_unless_signalled(until - steady_instant());
  };
  loop.signal = taken_signal;
  return loop;
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

Result<int> run_agent_verb(const Settings& settings) {
  block_signals();
  Result<std::unique_ptr<Site>> made = make_site(settings);
  if (!made) return made.error();
  Site& site = **made;
  std::error_code failure;
  std::filesystem::create_directories(site.store.directory(), failure);
  if (failure) {
    return storage_error("make the directory '" + site.store.directory().string() + "'",
                         failure.value());
  }
  Result<LockFile> lock = LockFile::acquire(
      site.store.lock_file(), "agent of " + site.profile.facility.str() + " on " + host_name() +
                                  ", process " + std::to_string(::getpid()) + "\n");
  if (!lock) {
    if (lock.error().code != Code::already_running) return lock.error();
    // Started by cron every few minutes: that one is at work is what was wanted.
    site.log.info(lock.error().message);
    return 0;
  }
  Result<AgentState> state = site.store.load();
  if (!state) return state.error();
  for (const TrackedJob& job : state->jobs) {
    if (!job.handle.cluster.empty()) site.scheduler.know_cluster(job.handle.cluster);
  }
  site.connection.link.interrupted = signal_pending;
  Result<std::unique_ptr<Link>> link = Link::create(site.connection.link);
  if (!link) return link.error();
  LinkAgentServer server(**link, site.log);
  AgentSettings agent = agent_settings(settings);
  std::random_device seed;
  agent.seed = (static_cast<std::uint64_t>(seed()) << 32) ^ seed();
  AgentMachine machine(agent, std::move(*state), steady_instant());
  site.log.info("agent started", {{"server", site.connection.link.server_url},
                                  {"state_dir", site.store.directory()},
                                  {"jobs", machine.live_jobs()},
                                  {"poll_interval_s", to_seconds(agent.poll_interval)}});
  return run_agent(machine, site.scheduler, server, site.store, loop_settings(site.profile),
                   site.log);
}

Result<int> run_submit_verb(const Settings& settings) {
  Result<std::unique_ptr<Site>> made = make_site(settings);
  if (!made) return made.error();
  Site& site = **made;
  std::random_device source;
  static constexpr char digits[] = "0123456789abcdef";
  Intent intent;
  for (int i = 0; i < 24; ++i) intent.token += digits[source() % 16];
  JobRequest request = job_request(site.profile, site.store, intent);
  // No plan stands behind a job that was submitted by hand.
  request.environment.erase("FEDQUEUE_PLAN_KEY");
  if (settings.flag("dry_run")) {
    std::cout << "# environment beside this shell's own\n";
    for (const auto& [name, value] : request.environment) {
      std::cout << shell_text({name + "=" + value}) << '\n';
    }
    std::cout << "# command\n" << shell_text(site.scheduler.submit_arguments(request)) << '\n';
    Result<std::string> script = read_file(request.script);
    if (!script) return script.error();
    std::cout << "# " << request.script.string() << '\n' << *script;
    return 0;
  }
  std::error_code failure;
  std::filesystem::create_directories(site.store.job_directory(intent.token), failure);
  if (failure) {
    return storage_error("make the job's directory below '" + site.store.directory().string() + "'",
                         failure.value());
  }
  Result<JobHandle> handle = site.scheduler.submit(request);
  if (!handle) return handle.error();
  site.log.info("submitted", {{"job", handle->id}, {"token", intent.token}});
  std::cout << handle->id << (handle->cluster.empty() ? "" : ";" + handle->cluster) << '\n';
  return 0;
}

}  // namespace

std::map<std::string, std::string> whole_environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return all;
}

std::vector<OptionSpec> configuration_options() {
  return all_of({connection_options(), job_options(), agent_options(), log_options()});
}

Command agent_command() {
  Command command;
  command.verb = "agent";
  command.summary = "Submit and watch this facility's jobs for a run";
  command.details =
      "Runs on a login node, in the foreground, until the run is over. It may be stopped and "
      "started at any time, also by cron every few minutes: a second one sees that the first is at "
      "work and ends. Jobs stay when it is stopped, and are found again when it is started.";
  command.examples = {"fedclient agent --kit kits/site-a --job_script job.sbatch",
                      "fedclient agent --config site-a.ini --once"};
  command.options = all_of({configuration_options(),
                            {{.name = "once",
                              .kind = Kind::flag,
                              .help = "Do what is due and end; for cron.",
                              .in_files = false},
                             {.name = "cancel_on_exit",
                              .kind = Kind::flag,
                              .help = "Cancel queued and running jobs when stopped.",
                              .in_files = false}}});
  command.run = run_agent_verb;
  return command;
}

Command submit_command() {
  Command command;
  command.verb = "submit";
  command.summary = "Submit one job by hand";
  command.details = "A running agent of the same facility finds the job and looks after it.";
  command.examples = {"fedclient submit --config site-a.ini --dry-run",
                      "fedclient submit --kit kits/site-a --job_script job.sbatch"};
  command.options =
      all_of({configuration_options(),
              {{.name = "dry_run",
                .kind = Kind::flag,
                .help = "Print the exact sbatch line and the script, and submit nothing.",
                .in_files = false}}});
  command.run = run_submit_verb;
  return command;
}

}  // namespace fedqueue
