#include "core/config/command_line.h"

#include <algorithm>
#include <boost/program_options.hpp>

namespace fedqueue {
namespace {

namespace po = boost::program_options;

// "local_steps,local-steps,e": both spellings, then the short form.
std::string boost_names(const OptionSpec& option) {
  std::string names = option.name;
  std::string dashed = option.name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  if (dashed != option.name) names += "," + dashed;
  if (option.short_form != 0) names += std::string(",") + option.short_form;
  return names;
}

po::options_description described(const std::vector<OptionSpec>& options) {
  po::options_description all;
  auto add = all.add_options();
  add("help,h", "");
  add("config", po::value<std::string>(), "");
  add("set", po::value<std::string>(), "");
  for (const OptionSpec& option : options) {
    if (option.name.find('*') != std::string::npos) continue;
    if (option.kind == Kind::flag) {
      add(boost_names(option).c_str(), "");
    } else {
      add(boost_names(option).c_str(), po::value<std::string>(), "");
    }
  }
  return all;
}

const OptionSpec* option_named(const std::vector<OptionSpec>& options, const std::string& name) {
  for (const OptionSpec& option : options) {
    if (names_option(name, option.name)) return &option;
  }
  return nullptr;
}

// What Boost has no option for is spelled as the setting it is:
//   --resume=off             a flag takes no word of its own, so that `--resume mnist` keeps mnist
//   --training.batch_size 8  a name of the user's choosing
std::vector<std::string> spelled_as_settings(const std::vector<OptionSpec>& options,
                                             const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      words.insert(words.end(), arguments.begin() + static_cast<long>(i), arguments.end());
      break;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.starts_with("--") ? word.substr(2, equals - 2) : "";
    const OptionSpec* option = name.empty() ? nullptr : option_named(options, name);
    const bool free_name = option != nullptr && option->name.find('*') != std::string::npos;
    const bool flag = option != nullptr && option->kind == Kind::flag;
    if ((free_name || flag) && equals != std::string::npos) {
      words.insert(words.end(), {"--set", word.substr(2)});
    } else if (free_name && flag) {
      words.insert(words.end(), {"--set", name + "=true"});
    } else if (free_name && i + 1 < arguments.size()) {
      words.insert(words.end(), {"--set", name + "=" + arguments[++i]});
    } else {
      words.push_back(word);
    }
  }
  return words;
}

Error syntax_error(const std::string& why) { return {Code::usage, why, ""}; }

Status add_set(CommandLine& line, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return syntax_error("--set " + text + " is not of the form --set name=value");
  }
  line.options.push_back({text.substr(0, equals), text.substr(equals + 1), true});
  return {};
}

Status add_option(CommandLine& line, const std::vector<OptionSpec>& options,
                  const po::option& option) {
  const std::string value = option.value.empty() ? "" : option.value.front();
  if (option.position_key >= 0 || option.string_key.empty()) {
    for (const std::string& argument : option.value) line.arguments.push_back(argument);
    return {};
  }
  if (option.unregistered) {
    if (option.value.empty() && option_named(options, option.string_key) != nullptr) {
      return syntax_error("option --" + option.string_key + " needs a value");
    }
    // The name as typed: Boost keeps the dashes of a short form.
    std::string name = option.string_key;
    while (name.starts_with('-')) name.erase(0, 1);
    line.options.push_back({name, value, false});
    return {};
  }
  if (option.string_key == "set") return add_set(line, value);
  if (option.string_key == "help") {
    line.help = true;
  } else if (option.string_key == "config") {
    line.config_file = value;
  } else {
    line.options.push_back({option.string_key, option.value.empty() ? "true" : value, false});
  }
  return {};
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<OptionSpec>& options,
                                       const std::vector<std::string>& arguments) {
  try {
    // Guessing from a prefix is off: a new option must not change what an old script means.
    const int style =
        po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    const po::options_description all = described(options);
    const po::parsed_options parsed =
        po::command_line_parser(spelled_as_settings(options, arguments))
            .options(all)
            .style(style)
            .allow_unregistered()
            .run();
    CommandLine line;
    for (const po::option& option : parsed.options) {
      if (Status added = add_option(line, options, option); !added) return added.error();
    }
    return line;
  } catch (const po::error_with_option_name& error) {
    std::string name = error.get_option_name();
    if (dynamic_cast<const po::invalid_command_line_syntax*>(&error) != nullptr) {
      return syntax_error("option " + name + " needs a value");
    }
    return syntax_error(error.what());
  } catch (const std::exception& error) {
    return syntax_error(std::string("the command line cannot be read: ") + error.what());
  }
}

}  // namespace fedqueue
