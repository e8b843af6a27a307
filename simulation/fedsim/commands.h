// The verbs of fedsim.
//
// Thread safety: called once, by main().
#pragma once

#include "core/config/command.h"

namespace fedqueue {

[[nodiscard]] Command check_command();
[[nodiscard]] Command replay_command();

}  // namespace fedqueue
