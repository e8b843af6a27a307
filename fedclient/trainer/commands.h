// The verbs of fedclient that need LibTorch: `model init`, `train`, `train local`, `evaluate`.
//
// Thread safety: called once, by main().
#pragma once

#include <vector>

#include "core/config/command.h"

namespace fedqueue {

[[nodiscard]] std::vector<Command> model_commands();
[[nodiscard]] std::vector<Command> train_commands();
[[nodiscard]] std::vector<Command> evaluate_commands();

}  // namespace fedqueue
