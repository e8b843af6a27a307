// The verbs `kit request` and `kit check`, ready for a client program's list of commands.
#pragma once

#include <string>
#include <vector>

#include "core/config/command.h"

namespace fedqueue {

[[nodiscard]] std::vector<Command> kit_commands(const std::string& program);

}  // namespace fedqueue
