#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "aggregation/reduce/average.h"
#include "core/base/text.h"
#include "fedclient/collective/launch.h"
#include "fedclient/link/link.h"
#include "fedclient/trainer/client_options.h"
#include "fedclient/trainer/commands.h"
#include "fedclient/trainer/stop_signals.h"
#include "fedclient/trainer/trainer.h"

namespace fedqueue {
namespace {

// The newest models that were fetched, as files of this process; they go with it.
class FetchedModels {
 public:
  FetchedModels() = default;
  FetchedModels(const FetchedModels&) = delete;
  FetchedModels& operator=(const FetchedModels&) = delete;
  ~FetchedModels() {
    keep_from(std::numeric_limits<Version>::max());
    remove(mean());
  }

  void set_folder(const std::filesystem::path& folder) { folder_ = folder; }

  // Of these versions the ones that are still published, oldest first. That of `last` must be.
  Result<std::vector<std::filesystem::path>> fetch(Link& link, Version first, Version last) {
    keep_from(first);
    for (Version version = first; version <= last; ++version) {
      if (files_.count(version) != 0) continue;
      const std::filesystem::path file = path(std::to_string(version));
      const Result<DownloadedModel> model = link.download_model(version, file);
      if (!model && (version == last || model.error().code != Code::not_found))
        return model.error();
      if (model) files_[version] = file;
    }
    std::vector<std::filesystem::path> found;
    for (const auto& [version, file] : files_)
      if (version <= last) found.push_back(file);
    return found;
  }

  [[nodiscard]] std::filesystem::path mean() const { return path("mean"); }

 private:
  [[nodiscard]] std::filesystem::path path(const std::string& what) const {
    return folder_ / ("evaluate-" + std::to_string(::getpid()) + "-" + what + ".safetensors");
  }
  static void remove(const std::filesystem::path& file) {
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }
  void keep_from(Version first) {
    while (!files_.empty() && files_.begin()->first < first) {
      remove(files_.begin()->second);
      files_.erase(files_.begin());
    }
  }

  std::filesystem::path folder_;
  std::map<Version, std::filesystem::path> files_;
};

struct RunState {
  Version latest = 0;
  bool finished = false;
  std::int64_t average = 1;  // of the run's policy
  std::string normalize;     // of the run's training; empty: the facility decides
};

Result<RunState> ask_state(Link& link) {
  Result<std::string> text = link.status_json();
  if (!text) return text.error();
  const auto document = nlohmann::json::parse(*text, nullptr, false);
  if (!document.is_object() || !document.contains("version") ||
      !document["version"].is_number_integer() || !document.contains("state") ||
      !document["state"].is_string()) {
    return Error{Code::network, "read the run's state: the server's answer has no version or state",
                 "Client and server may be of different releases."};
  }
  RunState state{document["version"].get<Version>(), document["state"] == "finished", 1, ""};
  if (const auto found = document.find("average_versions");
      found != document.end() && found->is_number_integer())
    state.average = std::max<std::int64_t>(1, found->get<std::int64_t>());
  if (const auto found = document.find("normalize"); found != document.end() && found->is_string())
    state.normalize = found->get<std::string>();
  return state;
}

struct Judge {
  const Settings& settings;
  Dataset held_out;
  std::unique_ptr<Link> link;
  FetchedModels fetched;

  // `normalize` as the run has it, or empty.
  Result<EvaluationResult> judge(const std::filesystem::path& model,
                                 const std::string& normalize) const {
    const std::string chosen = normalize.empty() ? settings.text_of("normalize") : normalize;
    Normalization normalization;
    if (!chosen.empty()) {
      Result<Normalization> parsed = parse_normalization(chosen);
      if (!parsed) return parsed.error();
      normalization = *parsed;
    }
    NetworkOptions options;
    options.device = settings.text("device");
    options.threads = static_cast<int>(settings.integer("threads"));
    options.model_file = settings.path("model_file");
    return evaluate(model, held_out, options, normalization);
  }

  void print(const std::string& what, std::optional<Version> version,
             const EvaluationResult& result) const {
    if (settings.text("format") == "json") {
      nlohmann::ordered_json line;
      if (version) line["version"] = *version;
      line["accuracy"] = result.accuracy;
      line["loss"] = result.loss;
      line["samples"] = result.samples;
      std::cout << line.dump() << std::endl;
    } else {
      std::cout << what << ": accuracy " << result.accuracy << ", loss " << result.loss << " on "
                << result.samples << " held-out samples" << std::endl;
    }
  }

  // Fetches, judges, reports: the version, or the mean of it and those before it.
  Status version(Version version, const RunState& run) {
    const std::int64_t average =
        settings.has("average") ? settings.integer("average") : run.average;
    const Version first = std::max<Version>(0, version - average + 1);
    const auto models = fetched.fetch(*link, first, version);
    if (!models) return models.error();
    if (models->size() > 1) {
      const Result<ReduceResult> mean = average_models(*models, {}, fetched.mean());
      if (!mean)
        return within("average " + std::to_string(models->size()) + " versions", mean.error());
    }
    Result<EvaluationResult> result =
        judge(models->size() > 1 ? fetched.mean() : models->back(), run.normalize);
    if (!result) return result.error();
    const std::string name = "version " + std::to_string(version);
    print(models->size() > 1 ? name + " (mean of the newest " + std::to_string(models->size()) + ")"
                             : name,
          version, *result);
    if (!settings.flag("report")) return {};
    return link->evaluated({version, result->accuracy, result->loss, result->samples});
  }
};

// True if the time passed; false if a signal came before.
bool pause_for(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until) {
    if (!stop_signal_seen().empty()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return stop_signal_seen().empty();
}

double poll_interval(const Settings& settings) {
  const auto floor = process_variables()("FED_POLL_MIN_S");
  return std::max(settings.real("poll"), floor ? parse_real(*floor).value_or(0) : 0);
}

// Judges whatever version is the newest, until the run is over: the last one too, and not those
// that were published while another was judged.
Result<int> follow(Judge& judge) {
  const RetryPolicy retry;
  const double interval = poll_interval(judge.settings);
  Version judged = -1;
  int failures = 0;
  auto worked_at = std::chrono::steady_clock::now();
  for (;;) {
    Result<RunState> state = ask_state(*judge.link);
    Status done;
    if (state) {
      if (state->latest > judged) {
        done = judge.version(state->latest, *state);
        // A version that was deleted meanwhile is not worth stopping for.
        if (done || done.error().code == Code::not_found) {
          done = {};
          judged = state->latest;
        }
      }
      if (done && state->finished) return 0;
    } else {
      done = state.error();
    }
    const auto now = std::chrono::steady_clock::now();
    double pause_s = interval;
    if (done) {
      failures = 0;
      worked_at = now;
    } else {
      if (!may_pass(done.error().code) || now - worked_at > retry.give_up_after) {
        return done.error();
      }
      pause_s = std::max(interval, to_seconds(backoff(retry, ++failures, 0.5)));
    }
    if (!pause_for(pause_s)) return 0;
  }
}

Result<int> evaluate_verb(const Settings& settings) {
  Result<Dataset> held_out = chosen_dataset(settings, Split::held_out);
  if (!held_out) return held_out.error();
  Judge judge{settings, std::move(*held_out), nullptr, {}};
  judge.fetched.set_folder(settings.path("work_directory"));
  if (settings.has("model")) {
    Result<EvaluationResult> result = judge.judge(settings.path("model"), "");
    if (!result) return result.error();
    judge.print(settings.path("model").string(), std::nullopt, *result);
    return 0;
  }
  std::optional<Version> wanted;
  if (settings.text("version") != "latest") {
    const auto number = parse_integer(settings.text("version"));
    if (!number || *number < 0) {
      return Error{Code::usage, "read --version: '" + settings.text("version") + "' is no version",
                   "Give a number from 0, or 'latest'."};
    }
    wanted = *number;
  }
  Result<Log> log = Log::create({}, "evaluate");
  if (!log) return log.error();
  Result<Connection> connection = find_connection(settings, process_variables(), *log);
  if (!connection) return connection.error();
  for (const std::string& note : connection->notes) log->warning(note);
  Result<std::unique_ptr<Link>> link = Link::create(connection->link);
  if (!link) return link.error();
  judge.link = std::move(*link);
  if (settings.flag("follow")) {
    watch_stop_signals();
    return follow(judge);
  }
  const Result<RunState> state = ask_state(*judge.link);
  if (!state) return state.error();
  if (Status done = judge.version(wanted.value_or(state->latest), *state); !done)
    return done.error();
  return 0;
}

// What of the training settings concerns the inputs of a model that is judged.
std::vector<OptionSpec> input_options() {
  std::vector<OptionSpec> options = training_options();
  std::erase_if(options, [](const OptionSpec& option) { return option.name != "normalize"; });
  return options;
}

}  // namespace

std::vector<Command> evaluate_commands() {
  Command evaluation;
  evaluation.verb = "evaluate";
  evaluation.summary = "Judge a version of the run's model on held-out data";
  evaluation.details =
      "The held-out split is never trained on. The result is reported to the server, which keeps "
      "it with the version. Under a policy whose option average_versions says so (resident: 16) it "
      "is that of the mean of the version and those before it, as `fedserver export` writes it. "
      "With --follow the newest version is judged again and again, until the run is over.";
  evaluation.examples = {"fedclient evaluate --kit kits/site-a --follow",
                         "fedclient evaluate --model initial.safetensors"};
  evaluation.options = all_of({connection_options(),
                               computing_options(),
                               input_options(),
                               {{.name = "version",
                                 .built_in = "latest",
                                 .help = "Which version to judge.",
                                 .value_name = "N|latest",
                                 .in_files = false},
                                {.name = "average",
                                 .kind = Kind::integer,
                                 .help = "Judge the mean of so many versions; as the run's policy "
                                         "has it if left out.",
                                 .minimum = 1,
                                 .maximum = 1000,
                                 .in_files = false},
                                {.name = "follow",
                                 .kind = Kind::flag,
                                 .built_in = "false",
                                 .help = "Judge the newest version until the run is over.",
                                 .in_files = false},
                                {.name = "model",
                                 .kind = Kind::path,
                                 .help = "Judge this file instead, without a server.",
                                 .value_name = "FILE",
                                 .in_files = false},
                                {.name = "report",
                                 .kind = Kind::flag,
                                 .built_in = "true",
                                 .help = "Tell the server.",
                                 .in_files = false},
                                {.name = "poll",
                                 .kind = Kind::seconds,
                                 .built_in = "5",
                                 .help = "How often --follow asks for news.",
                                 .minimum = 0.1},
                                {.name = "work_directory",
                                 .kind = Kind::path,
                                 .built_in = ".",
                                 .help = "Where models and unfinished updates are kept.",
                                 .value_name = "DIR"}}});
  evaluation.reads = true;
  evaluation.run = evaluate_verb;
  return {evaluation};
}

}  // namespace fedqueue
