// The help texts of programs and verbs, made from their declarations.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "core/config/command.h"

namespace fedqueue {

// All verbs of a program, or those of a group ("cert"), one line each.
[[nodiscard]] std::string program_help(const Program& program, const std::string& group = "");

// Usage, options with defaults and limits, examples.
[[nodiscard]] std::string command_help(const Program& program, const Command& command);

}  // namespace fedqueue
