// The verbs of fedsim.
//
// Thread safety: called once, by main().
#pragma once

#include <string>
#include <vector>

#include "core/config/command.h"

namespace fedqueue {

[[nodiscard]] Command simulate_run_command();
[[nodiscard]] Command compare_command();
[[nodiscard]] Command scale_command();
[[nodiscard]] Command check_command();
[[nodiscard]] Command replay_command();

// The `trace` of a built-in experiment whose log the user gives.
inline constexpr const char* kNoTrace = "-";

// The experiments that fedsim brings along, as files.
struct BuiltInExperiment {
  std::string name;
  std::string summary;
  std::string text;
};
[[nodiscard]] const std::vector<BuiltInExperiment>& built_in_experiments();

}  // namespace fedqueue
