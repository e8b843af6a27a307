#include "core/config/command_help.h"

#include <algorithm>
#include <cctype>

#include "core/base/text.h"

namespace fedqueue {
namespace {

constexpr std::size_t columns = 96;

// The text broken into lines that start at an indentation; the first line is not indented.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string result;
  std::size_t column = indent;
  for (const std::string& word : split(text, ' ')) {
    if (column > indent && column + 1 + word.size() > columns) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string two_columns(const std::string& left, const std::string& right, std::size_t width) {
  std::string line = "  " + left;
  if (line.size() + 2 > width) {
    line += "\n" + std::string(width, ' ');
  } else {
    line.resize(width, ' ');
  }
  return line + wrapped(right, width) + "\n";
}

std::string value_name(const OptionSpec& option) {
  if (!option.value_name.empty()) return option.value_name;
  switch (option.kind) {
    case Kind::text:
      return option.choices.empty() ? "TEXT" : join(option.choices, "|");
    case Kind::integer:
    case Kind::real:
      return "N";
    case Kind::flag:
      return "";
    case Kind::path:
      return "PATH";
    case Kind::seconds:
      return "TIME";
  }
  return "";
}

std::string option_left(const OptionSpec& option) {
  std::string name = option.name;
  const bool free_name = name.find('*') != std::string::npos;
  if (free_name) name.replace(name.find('*'), 1, "NAME");
  std::string left = option.short_form == 0 ? "" : std::string("-") + option.short_form + ", ";
  left += "--" + name;
  const std::string value = value_name(option);
  if (!value.empty()) left += " " + value;
  return left;
}

std::string option_right(const OptionSpec& option) {
  std::string right = option.help;
  if (!option.built_in.empty() && option.kind != Kind::flag) {
    right += " [" + option.built_in + "]";
  } else if (option.kind == Kind::flag && option.built_in == "true") {
    right += " [on; --" + option.name + "=false turns it off]";
  }
  if (option.repeated) right += " (may be repeated)";
  return right;
}

std::string argument_usage(const ArgumentSpec& argument) {
  std::string text = argument.name + (argument.repeated ? "…" : "");
  return argument.required ? text : "[" + text + "]";
}

}  // namespace

std::string program_help(const Program& program, const std::string& group) {
  std::string text = group.empty() ? program.name + " - " + program.summary + "\n\n" : "";
  text += "Usage: " + program.name + (group.empty() ? "" : " " + group) + " VERB [OPTION…]\n\n";
  std::size_t width = 0;
  for (const Command& command : program.commands) width = std::max(width, command.verb.size() + 6);
  for (const Command& command : program.commands) {
    if (!group.empty() && !command.verb.starts_with(group + " ")) continue;
    text += two_columns(command.verb, command.summary, width);
  }
  text += "\n'" + program.name + " VERB --help' explains a verb, with examples.\n";
  if (group.empty()) text += "'" + program.name + " --version' prints the version.\n";
  return text;
}

std::string command_help(const Program& program, const Command& command) {
  const std::string name = program.name + " " + command.verb;
  std::string text = name + " - " + command.summary + "\n\nUsage: " + name;
  for (const ArgumentSpec& argument : command.arguments) text += " " + argument_usage(argument);
  text += " [OPTION…]\n";
  if (!command.details.empty()) text += "\n" + wrapped(command.details, 0) + "\n";
  constexpr std::size_t width = 34;
  if (!command.arguments.empty()) {
    text += "\nArguments:\n";
    for (const ArgumentSpec& argument : command.arguments) {
      text += two_columns(argument.name, argument.help, width);
    }
  }
  text += "\nOptions:\n";
  for (const OptionSpec& option : command.options) {
    if (option.shown_in_help) text += two_columns(option_left(option), option_right(option), width);
  }
  text += two_columns("--config FILE", "Read settings from this file.", width);
  text += two_columns("--set NAME=VALUE", "Set any setting, as in the file.", width);
  text += two_columns("-h, --help", "Print this text.", width);
  if (!command.examples.empty()) {
    text += "\nExamples:\n";
    for (const std::string& example : command.examples) text += "  " + example + "\n";
  }
  return text;
}

}  // namespace fedqueue
