// Runs one program to its end, without a shell and without waiting for ever.
//
// Thread safety: any thread; the program dies with the calling thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace fedqueue {

struct CommandLine {
  std::vector<std::string> arguments;                   // the program first, found by PATH
  std::map<std::string, std::string> environment;       // exactly this
  Duration time_max = std::chrono::seconds(30);         // then it is killed
  std::size_t output_bytes_max = std::size_t{8} << 20;  // of each stream; the rest is dropped
};

struct CommandResult {
  int exit_code = 0;  // 128 + signal if it was killed by one
  bool timed_out = false;
  std::string output;
  std::string errors;
};

// An error if the program could not be started: not_found if there is none, internal otherwise.
Result<CommandResult> run_command(const CommandLine& command);

// As a person would type it, for logs and --dry-run.
[[nodiscard]] std::string shell_text(const std::vector<std::string>& arguments);

}  // namespace fedqueue
