// The verbs `fedserver cert …`, ready for the program's list of commands.
#pragma once

#include <vector>

#include "core/config/command.h"

namespace fedqueue {

// Each takes the run directory as its last, optional argument, and its settings `run` and `server`
// from that folder's config.ini.
[[nodiscard]] std::vector<Command> certificate_commands();

}  // namespace fedqueue
