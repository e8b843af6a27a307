// Programs with verbs: `fedserver cert list --format json`.
//
// A verb is one or more words. Each has a summary, options and examples; --help is made from them.
// The loaded settings go to the verb's function; its error is printed as
//
//   fedserver run: cannot listen on 0.0.0.0:8443: address already in use
//     Stop the other server, or choose another port with --tls.listen.
//
// and its code becomes the exit code (docs/exit-codes.md). Help and results go to standard output,
// everything else to standard error.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/config/option.h"
#include "core/config/settings.h"

namespace fedqueue {

// What a verb is given besides options.
struct ArgumentSpec {
  std::string name = {};  // shown in capitals: "NAME"
  std::string help = {};
  bool required = true;
  bool repeated = false;  // the last one alone: takes all that follow
};

struct Command {
  std::string verb = {};     // "run", "cert list"
  std::string summary = {};  // one line
  std::string details = {};  // further paragraphs for --help; may be empty
  std::vector<std::string> examples = {};
  std::vector<OptionSpec> options = {};
  std::vector<ArgumentSpec> arguments = {};
  bool reads = false;  // adds --format text|json
  // The file to read settings from when --config is not given; may depend on the environment.
  std::function<std::filesystem::path(const std::vector<std::string>& arguments)> user_file = {};
  // The exit code of a verb that did its work; an error is printed by run_program().
  std::function<Result<int>(const Settings&)> run = {};
};

struct Program {
  std::string name = {};     // "fedserver"
  std::string summary = {};  // one line
  std::string version = {};
  std::vector<Command> commands = {};
  // Options of the other programs of the family. Those of this program's other verbs are known.
  std::vector<std::string> foreign_names = {};
};

struct Invocation {
  std::vector<std::string> arguments = {};  // after the program's name
  std::map<std::string, std::string> environment = {};
  std::filesystem::path site_file = "/etc/fedqueue/site.ini";
};

// Runs the verb that the arguments name and returns the exit code of the process.
int run_program(const Program& program, const Invocation& invocation, std::ostream& out,
                std::ostream& err);

// The same with the process's own arguments, environment and streams: the body of a main().
int run_program(const Program& program, int argc, char** argv);

// `config print` and `config check` for a program whose configuration consists of these options.
[[nodiscard]] std::vector<Command> config_commands(const std::string& program,
                                                   const std::vector<OptionSpec>& options);

}  // namespace fedqueue
