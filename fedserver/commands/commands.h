// The verbs of fedserver. Each takes the run directory as its first argument, the current one if it
// is left out, and reads its settings from config.ini there.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/config/command.h"
#include "fedclient/link/link.h"
#include "fedserver/commands/settings.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {

[[nodiscard]] Command init_command();
[[nodiscard]] Command run_command();
[[nodiscard]] Command status_command();
[[nodiscard]] Command watch_command();
[[nodiscard]] Command stop_command();
[[nodiscard]] Command export_command();
[[nodiscard]] std::vector<Command> cert_commands();

// The argument DIR and the file its settings come from.
[[nodiscard]] ArgumentSpec directory_argument();
[[nodiscard]] std::filesystem::path settings_file(const std::vector<std::string>& arguments);

// Replaces `to` by a copy that is on the disk.
Status copy_durably(const std::filesystem::path& from, const std::filesystem::path& to);
// Whether the run's models carry control variates (SCAFFOLD).
[[nodiscard]] bool keeps_control_variates(const EngineConfig& config);

// A connection to the server of this run directory as its operator; network_refused when it is not
// running.
[[nodiscard]] Result<std::unique_ptr<Link>> operator_link(const RunDirectory& directory);

// The run as its journal tells, read without the server. `visit` sees every fact.
struct RunFromJournal {
  std::unique_ptr<Engine> engine;
  Instant at{};
};
[[nodiscard]] Result<RunFromJournal> replay_run(
    const RunDirectory& directory, const Settings& settings,
    const std::function<void(const Fact&, Instant, const Engine&)>& visit = {});

}  // namespace fedqueue
