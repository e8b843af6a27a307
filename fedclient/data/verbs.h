// The verbs `data …`, for every program of the client that wants it.
//
// Thread safety: called once, by main().
#pragma once

#include <vector>

#include "core/config/command.h"

namespace fedqueue {

[[nodiscard]] std::vector<Command> data_commands();

}  // namespace fedqueue
