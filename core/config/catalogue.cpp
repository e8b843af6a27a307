#include "core/config/catalogue.h"

#include <algorithm>
#include <cctype>

#include "core/base/ids.h"
#include "core/base/text.h"

namespace fedqueue {
namespace {

// Names with a free part: facility.site-a.sample is like facility.*.samples, which plain edit
// distance cannot see.
std::string meant_pattern(std::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> parts = split(name, '.');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!is_name(parts[i])) continue;
    std::vector<std::string> pattern = parts;
    pattern[i] = "*";
    std::vector<std::string> found = split(nearest(join(pattern, "."), candidates), '.');
    if (found.size() != parts.size() || found[i] != "*") continue;
    found[i] = parts[i];
    return join(found, ".");
  }
  return "";
}

}  // namespace

const OptionSpec* Catalogue::find(std::string_view name) const {
  for (const OptionSpec& option : options_) {
    if (names_option(name, option.name)) return &option;
  }
  return nullptr;
}

bool Catalogue::is_foreign(std::string_view name) const {
  return std::any_of(foreign_names_.begin(), foreign_names_.end(),
                     [&](const std::string& other) { return names_option(name, other); });
}

std::string Catalogue::meant(std::string_view name, bool on_command_line) const {
  std::vector<std::string> candidates;
  if (on_command_line) candidates = {"config", "set", "help"};
  for (const OptionSpec& option : options_) {
    if (on_command_line || option.in_files) candidates.push_back(option.name);
  }
  if (!on_command_line) {
    candidates.insert(candidates.end(), foreign_names_.begin(), foreign_names_.end());
  }
  std::string found = meant_pattern(name, candidates);
  if (found.empty()) found = nearest(name, candidates);
  return found;
}

std::string Catalogue::name_of_variable(std::string_view variable) const {
  variable.remove_prefix(std::string_view("FEDQUEUE_").size());
  std::string name;
  for (std::size_t i = 0; i < variable.size(); ++i) {
    if (variable.compare(i, 2, "__") == 0) {
      name += '.';
      ++i;
    } else {
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(variable[i])));
    }
  }
  // A user's own name has no underscores, so those of a free part stand for dashes; in a fixed part
  // both are the same.
  if (find(name) == nullptr && !is_foreign(name)) {
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    if (find(dashed) != nullptr || is_foreign(dashed)) return dashed;
  }
  return name;
}

std::string Catalogue::meant_variable(const std::string& variable) const {
  std::vector<std::string> known = {"FEDQUEUE_CONFIG", "FEDQUEUE_SITE_CONFIG"};
  for (const OptionSpec& option : options_) {
    if (option.in_files) known.push_back(environment_name(option.name));
  }
  return nearest(variable, known);
}

}  // namespace fedqueue
