// fedsim scale: time per event and memory of the driver and the engine with many facilities.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/base/text.h"
#include "simulation/fedsim/commands.h"
#include "simulation/scale/scale.h"

namespace fedqueue {
namespace {

using namespace simulation;
using nlohmann::json;

json as_json(const std::string& policy, const ScaleResult& result) {
  return {{"policy", policy},
          {"facilities", result.facilities},
          {"events", result.events},
          {"facts", result.facts},
          {"versions", result.versions},
          {"seconds", result.seconds},
          {"microseconds_per_event", result.microseconds_per_event},
          {"journal_bytes_per_event", result.journal_bytes_per_event},
          {"journal_bytes_per_fact", result.journal_bytes_per_fact},
          {"replay_microseconds_per_fact", result.replay_microseconds_per_fact},
          {"resident_bytes", result.resident_bytes},
          {"bytes_per_facility", result.bytes_per_facility}};
}

// Each measurement in a process of its own, so that memory is counted from the same beginning.
Result<json> measured(const std::string& policy, int facilities, int rounds) {
  ScaleOptions options;
  options.facilities = facilities;
  options.rounds = rounds;
  if (Status status = options.policy.set("policy", policy); !status) return status.error();
  int ends[2];
  if (::pipe(ends) != 0) return storage_error("measure: make a pipe", errno);
  FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return storage_error("measure: fork", errno);
  if (child == 0) {
    const Result<ScaleResult> result = measure_scale(options);
    const std::string text =
        (result ? as_json(policy, *result) : json{{"error", result.error().message}}).dump();
    const bool whole =
        ::write(write_end.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(whole ? 0 : 1);
  }
  write_end.reset();
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = ::read(read_end.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(count));
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  json document = json::parse(text, nullptr, false);
  if (!document.is_object() || document.contains("error")) {
    return Error{Code::internal,
                 "measure " + std::to_string(facilities) + " facilities under " + policy + ": " +
                     (document.is_object() ? document["error"].get<std::string>()
                                           : std::string("the process ended early")),
                 ""};
  }
  return document;
}

Result<int> run_scale(const Settings& settings) {
  json all = json::array();
  const bool text = settings.text("format") != "json";
  if (text)
    std::printf("%-12s %10s %9s %9s %9s %8s %12s %8s %15s\n", "policy", "facilities", "events",
                "versions", "us/event", "MB", "kB/facility", "B/fact", "replay us/fact");
  for (const std::string& policy : settings.list("policy")) {
    for (const std::string& number : settings.list("facilities")) {
      const auto facilities = parse_integer(number);
      if (!facilities || *facilities < 1 || *facilities > 1000000) {
        return Error{Code::usage, "'" + number + "' is no number of facilities",
                     "Give numbers from 1 to 1000000, as --facilities 1000,10000."};
      }
      const Result<json> result = measured(policy, static_cast<int>(*facilities),
                                           static_cast<int>(settings.integer("rounds")));
      if (!result) return result.error();
      all.push_back(*result);
      if (!text) continue;
      std::printf("%-12s %10d %9d %9d %9.1f %8.1f %12.2f %8.0f %15.2f\n", policy.c_str(),
                  static_cast<int>(*facilities), (*result)["events"].get<int>(),
                  (*result)["versions"].get<int>(),
                  (*result)["microseconds_per_event"].get<double>(),
                  (*result)["resident_bytes"].get<double>() / 1e6,
                  (*result)["bytes_per_facility"].get<double>() / 1e3,
                  (*result)["journal_bytes_per_fact"].get<double>(),
                  (*result)["replay_microseconds_per_fact"].get<double>());
      std::fflush(stdout);
    }
  }
  if (!text) std::cout << all.dump(2) << "\n";
  return 0;
}

}  // namespace

Command scale_command() {
  Command command;
  command.verb = "scale";
  command.summary = "Measure the engine and the driver with thousands of facilities";
  command.details =
      "Updates are names alone: no training, no network, no disk. A job of a facility is five "
      "events. Time per event should not grow with the number of facilities, and memory should "
      "grow with it. At the end a second server replays the journal.";
  command.examples = {"fedsim scale", "fedsim scale --facilities 100,1000 --policy fedbuff"};
  command.options = {{.name = "facilities",
                      .built_in = "1000,10000",
                      .help = "Numbers of facilities.",
                      .repeated = true,
                      .in_files = false},
                     {.name = "policy",
                      .built_in = "fedavg,fedqueue,fedbuff,resident",
                      .help = "Policies to measure.",
                      .repeated = true,
                      .in_files = false},
                     {.name = "rounds",
                      .kind = Kind::integer,
                      .built_in = "3",
                      .help = "Jobs of each facility.",
                      .minimum = 1,
                      .maximum = 1000,
                      .in_files = false}};
  command.reads = true;
  command.run = run_scale;
  return command;
}

}  // namespace fedqueue
