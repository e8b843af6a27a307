#include "simulation/experiment/experiment.h"

#include <algorithm>
#include <set>

#include "core/base/ids.h"
#include "core/base/prng.h"
#include "core/base/text.h"
#include "core/config/ini.h"

namespace fedqueue::simulation {
namespace {

constexpr std::uint64_t kTuningSeed = 1000001;  // far from any reported one

Result<Role> parse_role(const std::string& text) {
  for (const Role role : {Role::ours, Role::published, Role::baseline, Role::equal, Role::shown})
    if (text == to_text(role)) return role;
  return Error{Code::usage,
               "expected ours, published, baseline, equal or shown, got '" + text + "'", ""};
}

Result<int> parse_count(const std::string& text, int least, int most) {
  const auto number = parse_integer(text);
  if (!number || *number < least || *number > most) {
    return Error{Code::usage,
                 "expected a whole number from " + std::to_string(least) + " to " +
                     std::to_string(most) + ", got '" + text + "'",
                 ""};
  }
  return static_cast<int>(*number);
}

Status set_experiment(Experiment& experiment, const std::string& key, const std::string& value) {
  if (key == "name") {
    experiment.name = value;
    return {};
  }
  const std::map<std::string, std::pair<int, int>> ranges = {{"seeds", {1, 10000}},
                                                             {"first_seed", {1, 1000000}},
                                                             {"tuning_seeds", {0, 1000}},
                                                             {"tuning_budget", {1, 1000}}};
  const auto range = ranges.find(key);
  if (range == ranges.end()) {
    const std::string meant =
        nearest(key, {"name", "seeds", "first_seed", "tuning_seeds", "tuning_budget"});
    return Error{Code::usage, "'" + key + "' is not an option of an experiment",
                 meant.empty() ? "The options are name, seeds, first_seed, tuning_seeds and "
                                 "tuning_budget."
                               : "Did you mean " + meant + "?"};
  }
  const Result<int> number = parse_count(value, range->second.first, range->second.second);
  if (!number) return within("set " + key, number.error());
  if (key == "seeds") experiment.seeds = *number;
  if (key == "first_seed") experiment.first_seed = static_cast<std::uint64_t>(*number);
  if (key == "tuning_seeds") experiment.tuning_seeds = *number;
  if (key == "tuning_budget") experiment.tuning_budget = *number;
  return {};
}

Status set_policy(PolicySpec& policy, const std::string& key, const std::string& value) {
  if (key == "role") {
    const Result<Role> role = parse_role(value);
    if (!role) return within("set role", role.error());
    policy.role = *role;
  } else if (key.rfind("tune.", 0) == 0) {
    std::vector<std::string> values;
    for (const std::string& part : split(value, ',')) values.emplace_back(trim(part));
    policy.tune.emplace_back(key.substr(5), values);
  } else {
    policy.options.emplace_back(key, value);
  }
  return {};
}

template <typename T>
T& named(std::vector<T>& list, const std::string& name, const T& otherwise) {
  for (T& item : list)
    if (item.name == name) return item;
  list.push_back(otherwise);
  list.back().name = name;
  return list.back();
}

// "setting.high.world" → {"setting", "high", "world"}; "experiment.name" → {"experiment", "", …}
struct Key {
  std::string kind;
  std::string name;
  std::string option;
};

Key key_of(const std::string& text) {
  const std::size_t dot = text.find('.');
  Key key{text.substr(0, dot), "", ""};
  if (dot == std::string::npos) return key;
  key.option = text.substr(dot + 1);
  if (key.kind != "setting" && key.kind != "policy") return key;
  const std::size_t second = key.option.find('.');
  key.name = key.option.substr(0, second);
  key.option = second == std::string::npos ? "" : key.option.substr(second + 1);
  return key;
}

Status apply(Experiment& experiment, const Setting& defaults, const IniEntry& entry) {
  const Key key = key_of(entry.name);
  if (key.kind == "experiment") return set_experiment(experiment, key.option, entry.value);
  if (key.kind == "defaults") return {};  // applied before
  if ((key.kind != "setting" && key.kind != "policy") || key.option.empty()) {
    return Error{Code::usage, "'" + entry.name + "' belongs to no section of an experiment",
                 "The sections are [experiment], [defaults], [setting.NAME] and [policy.NAME]."};
  }
  if (!is_name(key.name)) {
    return Error{Code::usage, "'" + key.name + "' is not a name",
                 "Use lower-case letters, digits and '-'."};
  }
  if (key.kind == "setting")
    return named(experiment.settings, key.name, defaults).set(key.option, entry.value);
  return set_policy(named(experiment.policies, key.name, PolicySpec{}), key.option, entry.value);
}

// A section without a key is a setting or policy all the same: one that is as the defaults say.
void begin_sections(std::string_view text, const Setting& defaults, Experiment& experiment) {
  for (const std::string& whole : split(text, '\n')) {
    const std::string_view line = trim(whole);
    if (line.size() < 3 || line.front() != '[' || line.back() != ']') continue;
    const Key key = key_of(std::string(line.substr(1, line.size() - 2)));
    if (!is_name(key.name) || !key.option.empty()) continue;
    if (key.kind == "setting") (void)named(experiment.settings, key.name, defaults);
    if (key.kind == "policy") (void)named(experiment.policies, key.name, PolicySpec{});
  }
}

Status check(const Experiment& experiment, const std::string& file_name) {
  const auto wrong = [&](const std::string& what, const std::string& cure) {
    return Error{Code::usage, "read the experiment " + file_name + ": " + what, cure};
  };
  if (experiment.settings.empty())
    return wrong("it has no setting", "Add a section [setting.NAME].");
  if (experiment.policies.empty()) return wrong("it has no policy", "Add a section [policy.NAME].");
  for (const Setting& setting : experiment.settings)
    if (Status status = setting.validate(); !status) return status;
  return {};
}

}  // namespace

const char* to_text(Role role) {
  switch (role) {
    case Role::ours:
      return "ours";
    case Role::published:
      return "published";
    case Role::baseline:
      return "baseline";
    case Role::equal:
      return "equal";
    case Role::shown:
      return "shown";
  }
  return "";
}

const Setting* Experiment::setting(std::string_view setting_name) const {
  for (const Setting& candidate : settings)
    if (candidate.name == setting_name) return &candidate;
  return nullptr;
}

const PolicySpec* Experiment::policy(std::string_view policy_name) const {
  for (const PolicySpec& candidate : policies)
    if (candidate.name == policy_name) return &candidate;
  return nullptr;
}

std::vector<std::uint64_t> Experiment::reported_seeds() const {
  std::vector<std::uint64_t> result;
  for (int i = 0; i < seeds; ++i) result.push_back(first_seed + static_cast<std::uint64_t>(i));
  return result;
}

std::vector<std::uint64_t> Experiment::seeds_for_tuning() const {
  std::vector<std::uint64_t> result;
  for (int i = 0; i < tuning_seeds; ++i)
    result.push_back(kTuningSeed + first_seed + static_cast<std::uint64_t>(i));
  return result;
}

Result<Experiment> parse_experiment(std::string_view text, const std::string& file_name) {
  const Result<std::vector<IniEntry>> entries = parse_ini(text, file_name);
  if (!entries) return entries.error();
  Experiment experiment;
  Setting defaults;
  const auto at_line = [&](const IniEntry& entry, const Error& error) {
    return within("read " + file_name + " line " + std::to_string(entry.line), error);
  };
  for (const IniEntry& entry : *entries) {
    const Key key = key_of(entry.name);
    if (key.kind != "defaults") continue;
    if (Status status = defaults.set(key.option, entry.value); !status)
      return at_line(entry, status.error());
  }
  begin_sections(text, defaults, experiment);
  for (const IniEntry& entry : *entries) {
    if (Status status = apply(experiment, defaults, entry); !status)
      return at_line(entry, status.error());
  }
  if (Status status = check(experiment, file_name); !status) return status.error();
  return experiment;
}

std::string identity_of(const Experiment& experiment) {
  std::string text = "tuning " + std::to_string(experiment.tuning_seeds) + " " +
                     std::to_string(experiment.tuning_budget) + "\n";
  for (const Setting& setting : experiment.settings)
    text += "setting " + setting.name + " " + to_text(setting.options()) + "\n";
  for (const PolicySpec& policy : experiment.policies) {
    text += "policy " + policy.name + " " + to_text(policy.role) + " " + to_text(policy.options);
    for (const auto& [option, values] : policy.tune)
      text += " tune " + option + "=" + join(values, ",");
    text += "\n";
  }
  return text;
}

std::vector<OptionList> choices_of(const PolicySpec& policy, int budget) {
  std::vector<OptionList> grid = {{}};
  for (const auto& [option, values] : policy.tune) {
    std::vector<OptionList> wider;
    for (const OptionList& partial : grid) {
      for (const std::string& value : values) {
        wider.push_back(partial);
        wider.back().emplace_back(option, value);
      }
    }
    grid = std::move(wider);
  }
  // The untuned choice stays first; the others in a random order, so that a budget smaller than
  // the grid does not leave the last list's values out.
  Prng random(kTuningSeed);
  for (std::size_t i = grid.size(); i > 2; --i)
    std::swap(grid[i - 1], grid[1 + random.below(i - 1)]);
  if (grid.size() > static_cast<std::size_t>(budget)) grid.resize(static_cast<std::size_t>(budget));
  return grid;
}

std::string to_text(const OptionList& options) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : options) parts.push_back(name + "=" + value);
  return parts.empty() ? "-" : join(parts, " ");
}

}  // namespace fedqueue::simulation
