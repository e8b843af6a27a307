#include "core/config/command.h"

#include <algorithm>
#include <exception>
#include <iostream>
#include <optional>

#include "core/base/text.h"
#include "core/config/command_help.h"
#include "core/config/command_line.h"

namespace fedqueue {
namespace {

OptionSpec format_option() {
  return {.name = "format",
          .built_in = "text",
          .help = "How to print the result.",
          .choices = {"text", "json"},
          .in_files = false};
}

std::vector<std::string> words_of(const std::string& verb) { return split(verb, ' '); }

bool starts_with_words(const std::vector<std::string>& arguments,
                       const std::vector<std::string>& words) {
  return arguments.size() >= words.size() &&
         std::equal(words.begin(), words.end(), arguments.begin());
}

// The verb with the most words that the arguments begin with.
const Command* command_for(const Program& program, const std::vector<std::string>& arguments) {
  const Command* best = nullptr;
  for (const Command& command : program.commands) {
    if (!starts_with_words(arguments, words_of(command.verb))) continue;
    if (best == nullptr || words_of(best->verb).size() < words_of(command.verb).size()) {
      best = &command;
    }
  }
  return best;
}

bool is_group(const Program& program, const std::string& word) {
  return std::any_of(program.commands.begin(), program.commands.end(),
                     [&](const Command& c) { return c.verb.starts_with(word + " "); });
}

void print_error(std::ostream& err, const std::string& name, const Error& error) {
  err << name << ": " << error.message << "\n";
  if (!error.cure.empty()) {
    for (const std::string& line : split(error.cure, '\n')) err << "  " << line << "\n";
  }
}

int unknown_verb(const Program& program, const std::vector<std::string>& arguments,
                 std::ostream& err) {
  std::string typed = arguments.front();
  const bool in_group = is_group(program, typed);
  if (in_group && arguments.size() > 1) typed += " " + arguments[1];
  std::vector<std::string> verbs;
  for (const Command& command : program.commands) verbs.push_back(command.verb);
  const std::string meant = nearest(typed, verbs);
  const bool option = typed.starts_with("-");
  Error error{Code::usage, (option ? "unknown option '" : "unknown verb '") + typed + "'", ""};
  if (!option && !meant.empty()) error.message += "; did you mean '" + meant + "'?";
  error.cure =
      "'" + program.name + (in_group ? " " + arguments.front() : "") + " --help' lists the verbs.";
  print_error(err, program.name, error);
  return exit_code(error);
}

// Help, version and groups: everything that is not a verb. Nothing if a verb should run.
std::optional<int> run_without_verb(const Program& program,
                                    const std::vector<std::string>& arguments, std::ostream& out,
                                    std::ostream& err) {
  if (arguments.empty()) {
    err << program_help(program);
    return static_cast<int>(Code::usage);
  }
  const std::string& first = arguments.front();
  if (first == "--version" || first == "version") {
    out << program.name << " " << program.version << "\n";
    return 0;
  }
  if (first == "--help" || first == "-h" || first == "help") {
    std::vector<std::string> verb(arguments.begin() + 1, arguments.end());
    if (verb.empty()) {
      out << program_help(program);
      return 0;
    }
    if (const Command* command = command_for(program, verb); command != nullptr) {
      out << command_help(program, *command);
      return 0;
    }
    if (is_group(program, verb.front())) {
      out << program_help(program, verb.front());
      return 0;
    }
    return unknown_verb(program, verb, err);
  }
  if (command_for(program, arguments) != nullptr) return std::nullopt;
  if (is_group(program, first)) {
    const bool help = arguments.size() > 1 && (arguments[1] == "--help" || arguments[1] == "-h");
    if (help || arguments.size() == 1) {
      (help ? out : err) << program_help(program, first);
      return help ? 0 : static_cast<int>(Code::usage);
    }
  }
  return unknown_verb(program, arguments, err);
}

Status check_arguments(const Command& command, const std::vector<std::string>& given) {
  std::size_t most = command.arguments.size();
  for (std::size_t i = 0; i < command.arguments.size(); ++i) {
    const ArgumentSpec& argument = command.arguments[i];
    if (argument.repeated) most = given.size();
    if (argument.required && i >= given.size()) {
      return Error{Code::usage, argument.name + " is missing", ""};
    }
  }
  if (given.size() > most) {
    return Error{Code::usage, "unexpected argument '" + given[command.arguments.size()] + "'", ""};
  }
  return {};
}

Sources sources_for(const Program& program, const Command& command, const Invocation& invocation,
                    std::vector<std::string> arguments) {
  Sources sources;
  sources.arguments = std::move(arguments);
  sources.environment = invocation.environment;
  sources.site_file = invocation.site_file;
  sources.foreign_names = program.foreign_names;
  for (const Command& other : program.commands) {
    if (&other == &command) continue;
    for (const OptionSpec& option : other.options) {
      if (option.in_files) sources.foreign_names.push_back(option.name);
    }
  }
  return sources;
}

Result<int> run_verb(const Program& program, const Command& command, const Invocation& invocation,
                     std::ostream& out, std::ostream& err) {
  std::vector<std::string> rest(
      invocation.arguments.begin() + static_cast<long>(words_of(command.verb).size()),
      invocation.arguments.end());
  std::vector<OptionSpec> options = command.options;
  if (command.reads) options.push_back(format_option());

  Result<CommandLine> line = parse_command_line(options, rest);
  if (!line) return line.error();
  if (line->help) {
    Command shown = command;
    shown.options = options;
    out << command_help(program, shown);
    return 0;
  }
  Sources sources = sources_for(program, command, invocation, std::move(rest));
  if (command.user_file) sources.user_file = command.user_file(line->arguments);
  Result<Settings> settings = load_settings(options, sources);
  if (!settings) return settings.error();
  if (Status checked = check_arguments(command, settings->arguments()); !checked) {
    return checked.error();
  }
  for (const std::string& note : settings->notes()) {
    err << program.name << " " << command.verb << ": note: " << note << "\n";
  }
  return command.run(*settings);
}

}  // namespace

int run_program(const Program& program, const Invocation& invocation, std::ostream& out,
                std::ostream& err) {
  if (const std::optional<int> code = run_without_verb(program, invocation.arguments, out, err)) {
    return *code;
  }
  const Command& command = *command_for(program, invocation.arguments);
  const std::string name = program.name + " " + command.verb;
  Result<int> code = [&]() -> Result<int> {
    try {
      return run_verb(program, command, invocation, out, err);
    } catch (const std::exception& exception) {
      return Error{Code::internal, std::string("unexpected failure: ") + exception.what(),
                   "This is a defect of the program; please report it with the command you ran."};
    }
  }();
  if (code) return *code;
  Error error = code.error();
  if (error.code == Code::usage && error.cure.empty()) {
    error.cure = "'" + name + " --help' lists the options.";
  }
  print_error(err, name, error);
  return exit_code(error);
}

int run_program(const Program& program, int argc, char** argv) {
  Invocation invocation;
  for (int i = 1; i < argc; ++i) invocation.arguments.emplace_back(argv[i]);
  invocation.environment = process_environment();
  const int code = run_program(program, invocation, std::cout, std::cerr);
  std::cout.flush();
  if (!std::cout && code == 0) {
    std::cerr << program.name << ": standard output could not be written\n";
    return static_cast<int>(Code::storage);
  }
  return code;
}

std::vector<Command> config_commands(const std::string& program,
                                     const std::vector<OptionSpec>& options) {
  Command print;
  print.verb = "config print";
  print.summary = "Print the effective settings and where each comes from.";
  print.details = "The text is itself a valid file for --config.";
  print.examples = {program + " config print --config run.ini",
                    program + " config print --set t_sync=15m --format json"};
  print.options = options;
  print.reads = true;
  print.run = [](const Settings& settings) -> Result<int> {
    std::cout << (settings.text("format") == "json" ? settings.print_json()
                                                    : settings.print_text());
    return 0;
  };
  Command check;
  check.verb = "config check";
  check.summary = "Check the settings without starting anything.";
  check.examples = {program + " config check --config run.ini"};
  check.options = options;
  check.run = [](const Settings& settings) -> Result<int> {
    std::cout << (settings.user_file().empty() ? std::string("The settings")
                                               : "'" + settings.user_file().string() + "'")
              << " can be used.\n";
    return 0;
  };
  return {print, check};
}

}  // namespace fedqueue
