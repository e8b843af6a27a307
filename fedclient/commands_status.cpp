#include <fcntl.h>
#include <sys/file.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "fedclient/commands.h"
#include "fedclient/settings.h"
#include "fedclient/trainer/client_options.h"

namespace fedqueue {
namespace {

using nlohmann::json;

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// Looks without taking the lock from anybody.
bool agent_runs(const AgentStore& store) {
  Result<FileDescriptor> lock = open_file(store.lock_file(), O_RDONLY);
  if (!lock) return false;
  return ::flock(lock->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

json agent_view(const AgentStore& store) {
  json view = {{"running", agent_runs(store)}, {"state_dir", store.directory().string()}};
  Result<AgentState> state = store.load();
  if (!state) {
    view["error"] = state.error().message;
    return view;
  }
  view["jobs"] = json::array();
  for (const TrackedJob& job : state->jobs) {
    view["jobs"].push_back({{"job", job.handle.id},
                            {"cluster", job.handle.cluster},
                            {"phase", to_text(job.phase)},
                            {"state", job.state},
                            {"reason", job.reason},
                            {"restarts", job.restart_count},
                            {"token", job.token}});
  }
  view["intent"] = state->intent && state->intent->planned ? state->intent->token : "";
  return view;
}

json server_view(const LinkConfig& config, std::optional<Error>& failure) {
  Result<std::unique_ptr<Link>> link = Link::create(config);
  Result<std::string> text = link ? (*link)->status_json() : Result<std::string>(link.error());
  if (!text) {
    failure = text.error();
    return {{"error", text.error().message}, {"code", code_name(text.error().code)}};
  }
  json document = json::parse(*text, nullptr, false);
  return document.is_discarded() ? json(*text) : document;
}

void print_flat(const json& document, const std::string& indent) {
  for (const auto& [name, value] : document.items()) {
    if (value.is_structured() && !value.empty()) {
      std::cout << indent << name << ":\n";
      print_flat(value, indent + "  ");
    } else {
      std::cout << indent << name << ": "
                << (value.is_string() ? value.get<std::string>() : value.dump()) << '\n';
    }
  }
}

void print_text(const json& document) {
  const json& agent = document.at("agent");
  std::cout << "run " << document.at("run").get<std::string>() << ", facility "
            << document.at("facility").get<std::string>() << '\n';
  for (const json& note : document.at("notes")) {
    std::cout << "note: " << note.get<std::string>() << '\n';
  }
  std::cout << "agent: " << (agent.at("running").get<bool>() ? "running" : "not running") << " ("
            << agent.at("state_dir").get<std::string>() << ")\n";
  if (agent.contains("error")) std::cout << "  " << agent.at("error").get<std::string>() << '\n';
  if (agent.contains("jobs") && agent.at("jobs").empty()) std::cout << "jobs: none\n";
  for (const json& job : agent.value("jobs", json::array())) {
    const std::string reason = job.at("reason").get<std::string>();
    std::cout << "job " << job.at("job").get<std::string>() << ": "
              << job.at("state").get<std::string>()
              << (reason.empty() || reason == "None" ? "" : " (" + reason + ")") << '\n';
  }
  std::cout << "server " << document.at("server_url").get<std::string>() << ":\n";
  print_flat(document.at("server"), "  ");
}

Result<int> run_status_verb(const Settings& settings) {
  Result<Log> log = make_log(settings, "status");
  if (!log) return log.error();
  Result<Connection> connection = find_connection(settings, variable, *log);
  if (!connection) return connection.error();
  const AgentStore store(state_directory(settings, connection->link.run, connection->name));
  std::optional<Error> failure;
  json document = {
      {"run", connection->link.run.str()}, {"facility", connection->name},
      {"notes", connection->notes},        {"server_url", connection->link.server_url},
      {"agent", agent_view(store)},        {"server", server_view(connection->link, failure)}};
  if (settings.text("format") == "json") {
    std::cout << document.dump(2, ' ', false, json::error_handler_t::replace) << '\n';
  } else {
    print_text(document);
  }
  std::cout.flush();
  if (failure) return *failure;
  return 0;
}

}  // namespace

Command status_command() {
  Command command;
  command.verb = "status";
  command.summary = "Show this facility's agent, its jobs and the server's view";
  command.examples = {"fedclient status --kit kits/site-a",
                      "fedclient status --config site-a.ini --format json"};
  command.options = configuration_options();
  command.reads = true;
  command.run = run_status_verb;
  return command;
}

}  // namespace fedqueue
