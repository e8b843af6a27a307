// fedserver status, watch and stop: seeing a run, following it, and ending it.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "fedserver/commands/commands.h"
#include "fedserver/commands/report.h"

namespace fedqueue {
namespace {

using nlohmann::json;

bool is_json(const Settings& settings) { return settings.text("format") == "json"; }

Result<json> parsed(const std::string& text) {
  json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) {
    return Error{Code::network, "the server's status is not JSON", ""};
  }
  return document;
}

// From the server when it runs, from its journal otherwise.
Result<json> read_status(const Settings& settings) {
  const RunDirectory directory = run_directory(settings);
  Result<std::unique_ptr<Link>> link = operator_link(directory);
  if (link) {
    const Result<std::string> text = (*link)->status_json();
    if (text) return parsed(*text);
    if (text.error().code != Code::network_refused) return text.error();
  } else if (link.error().code != Code::network_refused) {
    return link.error();
  }
  const Result<RunFromJournal> run = replay_run(directory, settings);
  if (!run) return run.error();
  std::cerr << "the server is not running; this is what its journal says\n";
  return parsed(run->engine->status({}, run->at));
}

Result<int> run_status(const Settings& settings) {
  const Result<json> status = read_status(settings);
  if (!status) return status.error();
  std::cout << (is_json(settings) ? status->dump(2) + "\n" : status_text(*status));
  return 0;
}

// Prints each round once, when its accuracy is known or can no longer be waited for. Where every
// update makes a version, those that somebody judged stand for the others too.
class RoundPrinter {
 public:
  void print(const json& status, bool all) {
    if (!std::exchange(headed_, true)) std::cout << round_line_legend() << "\n";
    const bool sparse =
        status.at("versions_on_arrival").get<bool>() && !status.at("evaluations").empty();
    for (const json& round : status.at("rounds")) {
      const long version = round.at("version").get<long>();
      if (version <= printed_ || !round.at("published").get<bool>()) continue;
      const bool newest = version == status.at("version").get<long>();
      const bool judged = round.contains("evaluation");
      if (!all && newest && !judged) return;
      if (!judged && !newest && sparse) continue;
      std::cout << round_line(round) << "\n";
      printed_ = version;
    }
    std::cout.flush();
  }
  // True when the newest version has been evaluated, or nobody evaluates.
  static bool complete(const json& status) {
    const json& evaluations = status.at("evaluations");
    return evaluations.empty() ||
           evaluations.contains(std::to_string(status.at("version").get<long>()));
  }

 private:
  long printed_ = 0;
  bool headed_ = false;
};

Result<json> fresh_status(Link& link) {
  const Result<std::string> text = link.status_json();
  if (!text) return text.error();
  return parsed(*text);
}

Status follow(Link& events, Link& calls, bool as_json, double patience_s) {
  RoundPrinter printer;
  std::optional<std::chrono::steady_clock::time_point> finished_at;
  std::optional<Error> failed;
  const auto look = [&]() -> bool {
    const Result<json> status = fresh_status(calls);
    if (!status) {
      failed = status.error();
      return false;
    }
    const bool finished = status->at("state") == "finished";
    if (finished && !finished_at) finished_at = std::chrono::steady_clock::now();
    const bool give_up = finished_at && std::chrono::steady_clock::now() - *finished_at >
                                            std::chrono::duration<double>(patience_s);
    const bool over = finished && (RoundPrinter::complete(*status) || give_up);
    if (!as_json) printer.print(*status, over);
    if (!over) return true;
    if (!as_json) {
      std::cout << "finished: " << status->at("reason").get<std::string>() << "\n\n"
                << facility_table(*status);
      std::cout.flush();
    }
    return false;
  };
  if (!look()) return failed ? Status(*failed) : Status();
  const Status streamed = events.events(0, [&](const ServerEvent& event) {
    if (as_json) {
      std::cout << json({{"sequence", event.id},
                         {"kind", event.kind},
                         {"data", json::parse(event.data, nullptr, false)}})
                << std::endl;
    }
    const bool telling = event.kind == "published" || event.kind == "evaluation-recorded" ||
                         event.kind == "run-finished" || finished_at.has_value();
    return telling ? look() : true;
  });
  if (failed) return *failed;
  return streamed;
}

Result<int> run_watch(const Settings& settings) {
  const RunDirectory directory = run_directory(settings);
  Result<std::unique_ptr<Link>> events = operator_link(directory);
  if (!events) return events.error();
  Result<std::unique_ptr<Link>> calls = operator_link(directory);
  if (!calls) return calls.error();
  const Status followed = follow(**events, **calls, is_json(settings), settings.real("patience_s"));
  if (!followed) return followed.error();
  return 0;
}

Result<int> run_stop(const Settings& settings) {
  Result<std::unique_ptr<Link>> link = operator_link(run_directory(settings));
  if (!link) return link.error();
  if (Status stopped = (*link)->stop_run(settings.text("reason")); !stopped) return stopped.error();
  std::cout << "the run is finished; its facilities are told when they next ask\n";
  return 0;
}

Command reading_command(std::string verb, std::string summary) {
  Command command;
  command.verb = std::move(verb);
  command.summary = std::move(summary);
  command.options = hidden_run_options();
  command.arguments = {directory_argument()};
  command.reads = true;
  command.user_file = settings_file;
  return command;
}

}  // namespace

Command status_command() {
  Command command = reading_command("status", "Show the run, its facilities and its last rounds");
  command.examples = {"fedserver status runs/mnist", "fedserver status runs/mnist --format json"};
  command.run = run_status;
  return command;
}

Command watch_command() {
  Command command = reading_command("watch", "Follow the run: one line for each round, to its end");
  command.examples = {"fedserver watch runs/mnist",
                      "fedserver watch runs/mnist --format json   (every event as one line)"};
  command.options.push_back({.name = "patience_s",
                             .kind = Kind::seconds,
                             .built_in = "20",
                             .help = "How long to wait for the last accuracy after the run's end.",
                             .in_files = false});
  command.run = run_watch;
  return command;
}

Command stop_command() {
  Command command;
  command.verb = "stop";
  command.summary = "Finish the run; jobs and agents end when they next ask";
  command.examples = {"fedserver stop runs/mnist",
                      "fedserver stop runs/mnist --reason 'good enough'"};
  command.options = all_of({hidden_run_options(),
                            {{.name = "reason",
                              .built_in = "stopped by the operator",
                              .help = "What everybody is told.",
                              .in_files = false}}});
  command.arguments = {directory_argument()};
  command.user_file = settings_file;
  command.run = run_stop;
  return command;
}

}  // namespace fedqueue
