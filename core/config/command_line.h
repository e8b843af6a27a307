// The command line cut into options and arguments by Boost.Program_options. Values are not checked
// here, and a name that is not declared is passed on, so that every layer is judged by one rule.
//
// Thread safety: a pure function.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/config/option.h"

namespace fedqueue {

struct CommandLine {
  struct Option {
    std::string name;
    std::string value;
    bool by_set = false;  // --set name=value
  };
  std::vector<Option> options;  // in the order given, --config, --set and --help taken out
  std::vector<std::string> arguments;
  std::string config_file;
  bool help = false;
};

[[nodiscard]] Result<CommandLine> parse_command_line(const std::vector<OptionSpec>& options,
                                                     const std::vector<std::string>& arguments);

}  // namespace fedqueue
