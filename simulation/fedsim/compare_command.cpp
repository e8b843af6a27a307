// fedsim run and fedsim compare: cells of an experiment in child processes, then tables, files and
// a page.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <thread>

#include "core/base/file.h"
#include "core/base/text.h"
#include "simulation/experiment/compare.h"
#include "simulation/federation/federation.h"
#include "simulation/fedsim/commands.h"
#include "simulation/report/summary.h"
#ifdef FEDSIM_WITH_TRAINING
#include "simulation/fedsim/torch_learner.h"
#endif

namespace fedqueue {
namespace {

using namespace simulation;

volatile std::sig_atomic_t stop_signal = 0;

void note_signal(int number) { stop_signal = number; }

void watch_signals() {
  struct sigaction action = {};
  action.sa_handler = note_signal;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
}

std::vector<OptionSpec> options_of(bool comparing) {
  std::vector<OptionSpec> options = {
      {.name = "output",
       .kind = Kind::path,
       .help = "Folder for results, tables and the page; fedsim-NAME if not given.",
       .short_form = 'o',
       .in_files = false},
      {.name = "processes",
       .kind = Kind::integer,
       .built_in = "0",
       .help = "Cells computed at a time; 0: one per core.",
       .minimum = 0,
       .maximum = 1024,
       .in_files = false},
      {.name = "dataset",
       .kind = Kind::path,
       .built_in = "/usr/share/datasets/fashion-mnist",
       .help = "Directory of the dataset that the facilities share."},
      {.name = "setting",
       .help = "Only these settings of the experiment.",
       .repeated = true,
       .in_files = false},
      {.name = "policy",
       .help = "Only these policies of the experiment.",
       .repeated = true,
       .in_files = false},
      {.name = "trace",
       .kind = Kind::path,
       .help = "Log in the Standard Workload Format for every setting that reads one.",
       .in_files = false},
      {.name = "fresh",
       .kind = Kind::flag,
       .help = "Forget the results that are in the output folder.",
       .in_files = false}};
  if (!comparing) {
    options.push_back({.name = "seed",
                       .kind = Kind::integer,
                       .built_in = "1",
                       .help = "Of queues, data and models.",
                       .minimum = 1,
                       .maximum = 1e6,
                       .in_files = false});
    return options;
  }
  options.push_back({.name = "seeds",
                     .kind = Kind::integer,
                     .help = "Reported seeds, instead of the experiment's own number.",
                     .minimum = 1,
                     .maximum = 10000,
                     .in_files = false});
  options.push_back({.name = "quick",
                     .kind = Kind::flag,
                     .help = "The built-in experiment that takes minutes.",
                     .in_files = false});
  return options;
}

Result<Experiment> read_experiment(const Settings& settings, bool quick) {
  std::string name = settings.argument(0);
  if (name.empty()) name = quick ? "quick" : "variance";
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(name, ignored)) {
    std::vector<std::string> names;
    for (const BuiltInExperiment& experiment : built_in_experiments()) {
      if (experiment.name == name) return parse_experiment(experiment.text, name);
      names.push_back(experiment.name);
    }
    return Error{
        Code::usage,
        "read the experiment '" + name + "': there is no such file, and it is not built in",
        "Give a file, or one of " + join(names, ", ") + "."};
  }
  const Result<std::string> text = read_file(name);
  if (!text) return text.error();
  return parse_experiment(*text, name);
}

// Keeps what was asked for, by name.
template <typename T>
Status keep_named(std::vector<T>& items, const std::vector<std::string>& wanted, const char* what) {
  if (wanted.empty()) return {};
  std::vector<std::string> names;
  for (const T& item : items) names.push_back(item.name);
  for (const std::string& name : wanted) {
    if (std::count(names.begin(), names.end(), name) > 0) continue;
    return Error{Code::usage, "choose a " + std::string(what) + ": '" + name + "' is not there",
                 "The experiment has " + join(names, ", ") + "."};
  }
  std::erase_if(items, [&](const T& item) {
    return std::count(wanted.begin(), wanted.end(), item.name) == 0;
  });
  return {};
}

// The built-in experiments name no log: it is the user's.
Status set_trace(Experiment& experiment, const Settings& settings) {
  bool used = false;
  for (Setting& setting : experiment.settings) {
    if (!setting.reads_trace()) continue;
    used = true;
    if (settings.has("trace")) {
      setting.trace = settings.path("trace").string();
    } else if (setting.trace == kNoTrace) {
      return Error{Code::usage,
                   "run the setting " + setting.name + ": it replays a log, and none was given",
                   "Give one in the Standard Workload Format: --trace FILE."};
    }
  }
  if (!used && settings.has("trace")) {
    return Error{Code::usage,
                 "replay " + settings.path("trace").string() + ": no setting of '" +
                     experiment.name + "' reads a log",
                 "Leave --trace out, or run the experiment 'replay'."};
  }
  return {};
}

Status check_policies(const Experiment& experiment) {
  for (const PolicySpec& policy : experiment.policies) {
    for (const OptionList& choice : choices_of(policy, experiment.tuning_budget)) {
      const auto config = policy_config(policy, choice);
      if (!config) return config.error();
      for (const Setting& setting : experiment.settings)
        if (Status status = check_training(setting, *config); !status) return status;
    }
  }
  return {};
}

std::string duration_text(double seconds) {
  char text[32];
  if (seconds < 90) {
    std::snprintf(text, sizeof text, "%.0f s", seconds);
  } else {
    std::snprintf(text, sizeof text, "%.0f min", seconds / 60);
  }
  return text;
}

// A bar on a terminal, a line now and then elsewhere; on standard error.
class ProgressLine {
 public:
  void show(const Progress& progress) {
    const bool terminal = ::isatty(STDERR_FILENO) != 0;
    const auto now = std::chrono::steady_clock::now();
    const bool last = progress.done == progress.total;
    if (!terminal && !last && now - shown_at_ < std::chrono::seconds(15)) return;
    shown_at_ = now;
    const std::string figures = std::to_string(progress.done) + "/" +
                                std::to_string(progress.total) + " cells, " +
                                duration_text(progress.seconds_left) + " left";
    if (!terminal) {
      std::cerr << figures << "; " << progress.last << std::endl;
      return;
    }
    constexpr std::size_t kWidth = 30;
    const std::size_t full = progress.total == 0 ? kWidth : kWidth * progress.done / progress.total;
    std::cerr << "\r\033[K[" << std::string(full, '#') << std::string(kWidth - full, '.') << "] "
              << figures << (last ? "\n" : "") << std::flush;
  }

 private:
  std::chrono::steady_clock::time_point shown_at_{};
};

#ifdef FEDSIM_WITH_TRAINING

CellResult computed(const Experiment& experiment, const TrainingData& data, const Logs& logs,
                    const CellKey& key) {
  const auto begin = std::chrono::steady_clock::now();
  const auto failed = [&](const Error& error) {
    CellResult result;
    result.key = key;
    result.error = error.message;
    return result;
  };
  const Setting& setting = *experiment.setting(key.setting);
  const PolicySpec& policy = *experiment.policy(key.policy);
  OptionList choice;
  for (const OptionList& candidate : choices_of(policy, experiment.tuning_budget))
    if (to_text(candidate) == key.choice) choice = candidate;
  const Result<PolicyConfig> config = policy_config(policy, choice);
  if (!config) return failed(config.error());
  Result<std::unique_ptr<TorchLearner>> learner = TorchLearner::create(setting, key.seed, data);
  if (!learner) return failed(learner.error());
  FederationOptions options;
  options.stop_at_target = key.phase == Phase::tuning;
  options.keep_spans = key.phase != Phase::tuning && key.seed == experiment.first_seed;
  Result<CellResult> result = run_federation(setting, *config, key, **learner, logs, options);
  if (!result) return failed(result.error());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  result->wall_seconds = took.count();
  return *result;
}

Result<PoolHooks> pool_hooks(const Experiment& experiment, const Settings& settings) {
  Result<TrainingData> data = load_training_data(settings.path("dataset"));
  if (!data) return data.error();
  Result<Logs> logs = read_logs(experiment);
  if (!logs) return logs.error();
  PoolHooks hooks;
  hooks.compute = [experiment, data = std::make_shared<TrainingData>(std::move(*data)),
                   logs = std::make_shared<Logs>(std::move(*logs))](const CellKey& key) {
    return computed(experiment, *data, *logs, key);
  };
  hooks.interrupted = [] { return stop_signal != 0; };
  return hooks;
}

#else

Result<PoolHooks> pool_hooks(const Experiment&, const Settings&) {
  return Error{Code::usage, "run an experiment: this fedsim was built without LibTorch",
               "Build with -DFEDQUEUE_BUILD_TRAINER=ON; on Debian, apt-get install libtorch-dev."};
}

#endif

Status write_reports(const Report& report, const std::map<CellKey, CellResult>& cells,
                     const std::filesystem::path& folder) {
  const std::pair<const char*, std::string> files[] = {
      {"report.json", report_json(report)},
      {"report.html", report_html(report)},
      {"policies.csv", policies_csv(report)},
      {"cells.csv", cells_csv(report.experiment, cells)}};
  for (const auto& [name, content] : files)
    if (Status status = write_file_atomic(folder / name, content); !status) return status;
  return {};
}

int processes_of(const Settings& settings) {
  const auto wanted = static_cast<int>(settings.integer("processes"));
  if (wanted > 0) return wanted;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

Result<int> run_cells_of(const Settings& settings, Experiment experiment) {
  if (Status status = keep_named(experiment.settings, settings.list("setting"), "setting"); !status)
    return status.error();
  if (Status status = keep_named(experiment.policies, settings.list("policy"), "policy"); !status)
    return status.error();
  if (Status status = set_trace(experiment, settings); !status) return status.error();
  if (Status status = check_policies(experiment); !status) return status.error();
  const std::filesystem::path folder = settings.has("output")
                                           ? settings.path("output")
                                           : std::filesystem::path("fedsim-" + experiment.name);
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) return storage_error("make the folder " + folder.string(), failure.value());
  ComparisonHooks hooks;
  Result<PoolHooks> pool = pool_hooks(experiment, settings);
  if (!pool) return pool.error();
  hooks.pool = std::move(*pool);
  Result<ResultsFile> results =
      ResultsFile::open(folder / "results.jsonl", FEDQUEUE_VERSION "\n" + identity_of(experiment),
                        settings.flag("fresh"));
  if (!results) return results.error();
  ProgressLine line;
  hooks.progress = [&](const Progress& progress) { line.show(progress); };
  watch_signals();
  const Result<Choices> choices =
      run_comparison(experiment, processes_of(settings), *results, hooks);
  if (!choices) {
    if (stop_signal == 0) return choices.error();
    std::cerr << "\n" << choices.error().message << ". " << choices.error().cure << "\n";
    return 128 + stop_signal;
  }
  const Report report = summarize(experiment, *choices, results->cells());
  if (Status status = write_reports(report, results->cells(), folder); !status)
    return status.error();
  if (settings.text("format") == "json") {
    std::cout << report_json(report);
  } else {
    std::cout << report_text(report) << "\nThe page: " << (folder / "report.html").string() << "\n";
  }
  return 0;
}

Result<int> run_compare(const Settings& settings) {
  Result<Experiment> experiment = read_experiment(settings, settings.flag("quick"));
  if (!experiment) return experiment.error();
  if (settings.has("seeds")) experiment->seeds = static_cast<int>(settings.integer("seeds"));
  return run_cells_of(settings, std::move(*experiment));
}

Result<int> run_once(const Settings& settings) {
  Result<Experiment> experiment = read_experiment(settings, false);
  if (!experiment) return experiment.error();
  experiment->seeds = 1;
  experiment->first_seed = static_cast<std::uint64_t>(settings.integer("seed"));
  experiment->tuning_seeds = 0;
  experiment->tuning_budget = 1;
  experiment->name += "-run";
  return run_cells_of(settings, std::move(*experiment));
}

std::string built_in_list() {
  std::string text = "Built-in experiments:\n";
  for (const BuiltInExperiment& experiment : built_in_experiments())
    text += "  " + experiment.name + ": " + experiment.summary + "\n";
  return text;
}

}  // namespace

Command simulate_run_command() {
  Command command;
  command.verb = "run";
  command.summary = "Run every policy of an experiment once, without tuning";
  command.details =
      "Trains for real and counts time virtually: the server, the agents and the sessions are "
      "those of the product, over simulated queues and networks.\n\n" +
      built_in_list();
  command.examples = {"fedsim run experiment.ini",
                      "fedsim run paper --setting rho-0-9-sigma-0-4 --policy fedavg --seed 3"};
  command.options = options_of(false);
  command.arguments = {{.name = "experiment", .help = "A file, or a built-in name."}};
  command.reads = true;
  command.run = run_once;
  return command;
}

Command compare_command() {
  Command command;
  command.verb = "compare";
  command.summary = "Compare policies over settings and seeds, each tuned with the same budget";
  command.details =
      "Policies are tuned on seeds apart from those that are reported. Finished cells are kept in "
      "OUTPUT/results.jsonl: a comparison that was stopped goes on where it was. Writes "
      "report.json, report.html, policies.csv and cells.csv beside them.\n\n" +
      built_in_list();
  command.examples = {"fedsim compare --quick", "fedsim compare paper --processes 2",
                      "fedsim compare replay --trace site.swf",
                      "fedsim compare experiment.ini --seeds 20 --output results"};
  command.options = options_of(true);
  command.arguments = {
      {.name = "experiment", .help = "A file, or a built-in name.", .required = false}};
  command.reads = true;
  command.run = run_compare;
  return command;
}

}  // namespace fedqueue
