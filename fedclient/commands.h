// The verbs of fedclient that need no LibTorch.
//
// Thread safety: called once, by main().
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/config/command.h"

namespace fedqueue {

[[nodiscard]] Command agent_command();
[[nodiscard]] Command submit_command();
[[nodiscard]] Command status_command();
// Everything the agent's configuration consists of, for `config print` and `config check`.
[[nodiscard]] std::vector<OptionSpec> configuration_options();

// train, evaluate, model: shown in the help here and performed by fedclient-train.
[[nodiscard]] std::vector<Command> trainer_commands();
[[nodiscard]] bool is_trainer_verb(const std::string& verb);
// Becomes fedclient-train with the same arguments; returns only if that is not installed.
int become_trainer(int argc, char** argv);

[[nodiscard]] std::map<std::string, std::string> whole_environment();

}  // namespace fedqueue
