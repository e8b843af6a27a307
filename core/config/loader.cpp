// Builds Settings from their layers. See settings.h for the rules.
#include <unistd.h>

#include <algorithm>

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/config/catalogue.h"
#include "core/config/command_line.h"
#include "core/config/ini.h"
#include "core/config/settings.h"

namespace fedqueue {

class SettingsLoader {
 public:
  SettingsLoader(const std::vector<OptionSpec>& options, const Sources& sources)
      : catalogue_(options, sources.foreign_names), sources_(sources) {}

  Result<Settings> load();

 private:
  // Where a value was read: for the origin and for error messages.
  struct Place {
    std::string origin;            // "run.ini line 3"
    std::filesystem::path folder;  // relative paths start here; empty for the current folder
    const char* noun = "key";      // what a person calls a name here
    std::string dashes = {};       // "--" on the command line
  };
  struct Limit {
    double value;
    std::string text;
    std::string origin;
  };
  using Limits = std::map<std::string, Limit, std::less<>>;  // by the declared name

  void add_built_in();
  Status add_file(const std::filesystem::path& path, bool site);
  Status add_file_entry(const IniEntry& entry, const Place& place, bool site);
  Status add_limit(Limits& limits, std::string_view name, const std::string& value,
                   const Place& place);
  Status add_environment();
  Status add_command_line(const CommandLine& line);
  Status set(std::string_view name, const std::vector<std::string>& values, const Place& place);
  void apply_limits();
  void apply_limit(const std::string& name, Settings::Entry& entry, const Limits& limits,
                   bool at_least);

  [[nodiscard]] Result<std::filesystem::path> file_named(const std::string& variable,
                                                         const std::string& on_command_line,
                                                         const std::filesystem::path& otherwise);
  [[nodiscard]] Error unknown(std::string_view name, const Place& place) const;
  [[nodiscard]] Result<std::vector<std::string>> checked(const OptionSpec& option,
                                                         const std::vector<std::string>& values,
                                                         const Place& place) const;
  [[nodiscard]] std::string resolved(const std::string& path, const Place& place) const;
  Settings::Entry& instantiate(const OptionSpec& option, const std::string& free_name);
  Settings::Entry& entry_for(const OptionSpec& option, std::string_view name);

  const Catalogue catalogue_;
  const Sources& sources_;
  Settings settings_;
  Limits minima_;
  Limits maxima_;
};

Result<Settings> SettingsLoader::load() {
  add_built_in();
  Result<CommandLine> line = parse_command_line(catalogue_.options(), sources_.arguments);
  if (!line) return line.error();

  Result<std::filesystem::path> site = file_named("FEDQUEUE_SITE_CONFIG", "", sources_.site_file);
  if (!site) return site.error();
  if (!site->empty()) {
    if (Status added = add_file(*site, true); !added) return added.error();
  }
  Result<std::filesystem::path> user =
      file_named("FEDQUEUE_CONFIG", line->config_file, sources_.user_file);
  if (!user) return user.error();
  if (!user->empty()) {
    if (Status added = add_file(*user, false); !added) return added.error();
    settings_.user_file_ = *user;
  }
  if (Status added = add_environment(); !added) return added.error();
  if (Status added = add_command_line(*line); !added) return added.error();
  settings_.arguments_ = std::move(line->arguments);
  apply_limits();
  return std::move(settings_);
}

void SettingsLoader::add_built_in() {
  for (const OptionSpec& option : catalogue_.options()) {
    if (option.name.find('*') != std::string::npos) continue;
    entry_for(option, option.name);
  }
}

// A file that was asked for must exist; one that is looked for by default may be absent.
Result<std::filesystem::path> SettingsLoader::file_named(const std::string& name,
                                                         const std::string& on_command_line,
                                                         const std::filesystem::path& otherwise) {
  const auto from_environment = sources_.environment.find(name);
  std::filesystem::path path = otherwise;
  std::string asked_by;
  if (from_environment != sources_.environment.end()) {
    path = from_environment->second;
    asked_by = name;
  }
  if (!on_command_line.empty()) {
    path = on_command_line;
    asked_by = "--config";
  }
  if (path.empty()) return path;
  if (::access(path.c_str(), F_OK) == 0) return path;
  if (asked_by.empty()) return std::filesystem::path();
  return Error{Code::usage,
               "read the configuration '" + path.string() + "' named by " + asked_by +
                   ": there is no such file",
               "Check the path; it is relative to the folder the command was started in."};
}

Status SettingsLoader::add_file(const std::filesystem::path& path, bool site) {
  Result<std::string> text = read_file(path, 1u << 20);
  if (!text) return within("read the configuration", text.error());
  Result<std::vector<IniEntry>> entries = parse_ini(*text, path.string());
  if (!entries) return entries.error();

  // A repeated option may stand on several lines; every other name may stand once.
  std::map<std::string, int> first_line;
  std::vector<IniEntry> merged;
  for (IniEntry& entry : *entries) {
    const OptionSpec* option = catalogue_.find(entry.name);
    const std::string known_as = environment_name(entry.name);
    const auto earlier = first_line.find(known_as);
    if (earlier == first_line.end()) {
      first_line.emplace(known_as, entry.line);
      merged.push_back(std::move(entry));
    } else if (option != nullptr && option->repeated) {
      for (IniEntry& kept : merged) {
        if (environment_name(kept.name) == known_as) kept.value += "," + entry.value;
      }
    } else {
      return Error{Code::usage,
                   "'" + entry.name + "' stands twice in " + path.string() + ", in line " +
                       std::to_string(earlier->second) + " and in line " +
                       std::to_string(entry.line),
                   "Keep one of the two lines."};
    }
  }
  for (const IniEntry& entry : merged) {
    Place place{path.string() + " line " + std::to_string(entry.line), path.parent_path()};
    if (Status added = add_file_entry(entry, place, site); !added) return added;
  }
  return {};
}

Status SettingsLoader::add_file_entry(const IniEntry& entry, const Place& place, bool site) {
  for (const std::string_view prefix : {"min.", "max."}) {
    if (!std::string_view(entry.name).starts_with(prefix) ||
        catalogue_.find(entry.name) != nullptr) {
      continue;
    }
    if (!site) {
      return Error{Code::usage,
                   "'" + entry.name + "' in " + place.origin + ": only the site file sets limits",
                   "Remove the line, or ask the administrator of this site."};
    }
    return add_limit(prefix == "min." ? minima_ : maxima_,
                     std::string_view(entry.name).substr(prefix.size()), entry.value, place);
  }
  if (const OptionSpec* option = catalogue_.find(entry.name);
      option != nullptr && !option->in_files) {
    return Error{
        Code::usage,
        "'" + entry.name + "' in " + place.origin + ": it can be given on the command line alone",
        "Remove the line."};
  }
  return set(entry.name, {entry.value}, place);
}

Status SettingsLoader::add_limit(Limits& limits, std::string_view name, const std::string& value,
                                 const Place& place) {
  const OptionSpec* option = catalogue_.find(name);
  if (option == nullptr) {
    if (catalogue_.is_foreign(name)) return {};
    return unknown(name, place);
  }
  if (option->kind == Kind::text || option->kind == Kind::path || option->kind == Kind::flag) {
    return Error{Code::usage,
                 "a limit of '" + option->name + "' in " + place.origin +
                     ": only numbers and durations have limits",
                 "Remove the line."};
  }
  Result<std::string> text = checked_value(*option, value);
  if (!text) return Error{Code::usage, place.origin + ": " + text.error().message, ""};
  limits[option->name] = Limit{*parse_real(*text), *text, place.origin};

  const auto lower = minima_.find(option->name);
  const auto upper = maxima_.find(option->name);
  if (lower != minima_.end() && upper != maxima_.end() &&
      lower->second.value > upper->second.value) {
    return Error{Code::usage,
                 "the site's minimum of '" + option->name + "' (" + lower->second.origin +
                     ") is above its maximum (" + upper->second.origin + ")",
                 "Correct the site file."};
  }
  return {};
}

Status SettingsLoader::add_environment() {
  for (const auto& [variable, value] : sources_.environment) {
    if (!variable.starts_with("FEDQUEUE_") || value.empty()) continue;
    if (variable == "FEDQUEUE_CONFIG" || variable == "FEDQUEUE_SITE_CONFIG") continue;
    const std::string name = catalogue_.name_of_variable(variable);
    if (const OptionSpec* option = catalogue_.find(name); option != nullptr) {
      if (!option->in_files) continue;
      if (Status added = set(name, {value}, {variable, {}, "variable"}); !added) return added;
    } else if (!catalogue_.is_foreign(name)) {
      const std::string meant = catalogue_.meant_variable(variable);
      if (meant.empty()) continue;
      settings_.notes_.push_back("the variable " + variable + " means nothing here; did you mean " +
                                 meant + "?");
    }
  }
  return {};
}

Status SettingsLoader::add_command_line(const CommandLine& line) {
  struct Given {
    std::string name;
    std::vector<std::string> values;
    Place place;
  };
  std::vector<Given> all;  // one entry an option, so that a repeated one keeps all its values
  for (const CommandLine::Option& option : line.options) {
    const Place place = option.by_set ? Place{"the command line", {}, "name"}
                                      : Place{"the command line", {}, "option", "--"};
    const OptionSpec* declared = catalogue_.find(option.name);
    if (declared == nullptr) return unknown(option.name, place);
    const std::string known_as = environment_name(option.name);
    auto found = std::find_if(all.begin(), all.end(), [&](const Given& given) {
      return environment_name(given.name) == known_as;
    });
    if (found == all.end()) found = all.insert(all.end(), Given{option.name, {}, place});
    if (!declared->repeated) found->values.clear();  // the last one wins, as elsewhere
    found->values.push_back(option.value);
    found->place = place;
  }
  for (const Given& given : all) {
    if (Status added = set(given.name, given.values, given.place); !added) return added;
  }
  return {};
}

Status SettingsLoader::set(std::string_view name, const std::vector<std::string>& values,
                           const Place& place) {
  const OptionSpec* option = catalogue_.find(name);
  if (option == nullptr) {
    if (catalogue_.is_foreign(name)) return {};
    return unknown(name, place);
  }
  Result<std::vector<std::string>> all = checked(*option, values, place);
  if (!all) return all.error();
  Settings::Entry& entry = entry_for(*option, name);
  entry.values = std::move(*all);
  entry.origin = place.origin;
  entry.given = true;
  return {};
}

Result<std::vector<std::string>> SettingsLoader::checked(const OptionSpec& option,
                                                         const std::vector<std::string>& values,
                                                         const Place& place) const {
  std::vector<std::string> all;
  for (const std::string& value : values) {
    const std::vector<std::string> parts =
        option.repeated ? split(value, ',') : std::vector<std::string>{value};
    for (const std::string& part : parts) {
      const bool unset = trim(part).empty();
      if (unset && (option.repeated || option.kind == Kind::text || option.kind == Kind::path)) {
        continue;
      }
      Result<std::string> text = checked_value(option, part);
      if (!text) {
        return Error{Code::usage,
                     place.dashes + option.name + " (" + place.origin + ") is '" + part +
                         "'; it must be " + allowed_values(option),
                     ""};
      }
      all.push_back(option.kind == Kind::path ? resolved(*text, place) : *text);
    }
  }
  return all;
}

std::string SettingsLoader::resolved(const std::string& path, const Place& place) const {
  if (path.starts_with("~/")) {
    const auto home = sources_.environment.find("HOME");
    if (home != sources_.environment.end()) return home->second + path.substr(1);
  }
  if (place.folder.empty() || path.starts_with("/")) return path;
  return (place.folder / path).lexically_normal().string();
}

void SettingsLoader::apply_limits() {
  for (auto& [name, entry] : settings_.entries_) {
    apply_limit(name, entry, minima_, true);
    apply_limit(name, entry, maxima_, false);
  }
}

void SettingsLoader::apply_limit(const std::string& name, Settings::Entry& entry,
                                 const Limits& limits, bool at_least) {
  const auto limit = limits.find(entry.option.name);
  if (limit == limits.end()) return;
  for (std::string& value : entry.values) {
    const double number = *parse_real(value);
    if (at_least ? number >= limit->second.value : number <= limit->second.value) continue;
    settings_.notes_.push_back(
        name + " = " + value + " (" + entry.origin + ") is " +
        (at_least ? "below the site's minimum " : "above the site's maximum ") +
        limit->second.text + " (" + limit->second.origin + "); " + limit->second.text + " is used");
    value = limit->second.text;
    entry.origin = limit->second.origin;
  }
}

Error SettingsLoader::unknown(std::string_view name, const Place& place) const {
  std::string message =
      "unknown " + std::string(place.noun) + " '" + place.dashes + std::string(name) + "'";
  if (place.dashes.empty()) message += " in " + place.origin;
  const std::string meant = catalogue_.meant(name, !place.dashes.empty());
  if (!meant.empty()) message += "; did you mean '" + place.dashes + meant + "'?";
  return {Code::usage, message, ""};
}

// One name of a declared option, with its built-in value, made once.
Settings::Entry& SettingsLoader::instantiate(const OptionSpec& option,
                                             const std::string& free_name) {
  std::vector<std::string> parts = split(option.name, '.');
  std::replace(parts.begin(), parts.end(), std::string("*"), free_name);
  const std::string name = join(parts, ".");
  const auto [found, added] = settings_.entries_.try_emplace(name);
  Settings::Entry& entry = found->second;
  if (!added) return entry;
  entry.option = option;
  settings_.order_.push_back(name);
  if (!option.built_in.empty()) {
    Result<std::vector<std::string>> values = checked(option, {option.built_in}, {});
    FEDQUEUE_ASSERT(values.has_value());  // a default its own declaration forbids
    entry.values = std::move(*values);
    entry.origin = "built-in";
  }
  return entry;
}

Settings::Entry& SettingsLoader::entry_for(const OptionSpec& option, std::string_view name) {
  const std::size_t star = option.name.find('*');
  if (star == std::string::npos) return instantiate(option, "");
  const std::string prefix = option.name.substr(0, star + 1);
  const auto position = static_cast<std::size_t>(std::count(prefix.begin(), prefix.end(), '.'));
  std::string free_name = split(name, '.')[position];
  const bool key = prefix.size() == option.name.size();  // as in training.*, and not a name
  if (key) std::replace(free_name.begin(), free_name.end(), '-', '_');
  // One setting of a facility makes the facility known, with the defaults of all its settings.
  for (const OptionSpec& other : catalogue_.options()) {
    if (other.name.starts_with(prefix)) instantiate(other, free_name);
  }
  return instantiate(option, free_name);
}

Result<Settings> load_settings(const std::vector<OptionSpec>& options, const Sources& sources) {
  return SettingsLoader(options, sources).load();
}

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (name == "HOME" || name.starts_with("FEDQUEUE_")) {
      variables.emplace(name, text.substr(equals + 1));
    }
  }
  return variables;
}

}  // namespace fedqueue
