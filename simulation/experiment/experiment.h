// An experiment as a file: settings, policies, seeds and what may be tuned.
//
//   [experiment]      name, seeds, first_seed, tuning_seeds, tuning_budget
//   [defaults]        options of every setting (setting.h)
//   [setting.NAME]    a setting: what differs from the defaults
//   [policy.NAME]     role, tune.OPTION = a, b, c, and the options of the server's policy
//
// Seeds that are reported run from first_seed on; those that policies are tuned on are others, so
// that no policy is shown on what it was fitted to.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "simulation/experiment/setting.h"

namespace fedqueue::simulation {

// ours: the policy that must win. published: FedQueue as its authors' code has it. baseline:
// another algorithm as published. equal: a baseline that is given the same allocations, early
// submission and outer optimiser as ours. shown: neither compared against nor counted as ours.
enum class Role { ours, published, baseline, equal, shown };
[[nodiscard]] const char* to_text(Role role);

using OptionList = std::vector<std::pair<std::string, std::string>>;

struct PolicySpec {
  std::string name;
  Role role = Role::baseline;
  OptionList options;  // of the server's policy, in the file's order
  // Values to try, by option; the first of each is the untuned one where options has none.
  std::vector<std::pair<std::string, std::vector<std::string>>> tune;
};

struct Experiment {
  std::string name = "experiment";
  int seeds = 10;
  std::uint64_t first_seed = 1;
  int tuning_seeds = 1;
  // Choices that each policy may try per setting, the first being the untuned one. Equal for all.
  int tuning_budget = 6;
  std::vector<Setting> settings;
  std::vector<PolicySpec> policies;

  [[nodiscard]] const Setting* setting(std::string_view setting_name) const;
  [[nodiscard]] const PolicySpec* policy(std::string_view policy_name) const;
  [[nodiscard]] std::vector<std::uint64_t> reported_seeds() const;
  [[nodiscard]] std::vector<std::uint64_t> seeds_for_tuning() const;
};

// `file_name` is for errors, which name the line. Options of policies are kept as text: whoever
// runs them checks them.
[[nodiscard]] Result<Experiment> parse_experiment(std::string_view text,
                                                  const std::string& file_name);

// Everything that decides what a cell's result is: equal texts mean that results may be mixed.
// How many seeds are reported is not part of it.
[[nodiscard]] std::string identity_of(const Experiment& experiment);

// What a policy may try: the untuned choice, then others from the grid of its `tune` lists in an
// order that depends on the policy's lists alone, at most `budget` altogether.
[[nodiscard]] std::vector<OptionList> choices_of(const PolicySpec& policy, int budget);

// "lr_base=0.1 local_steps=40"; "-" for an empty list.
[[nodiscard]] std::string to_text(const OptionList& options);

}  // namespace fedqueue::simulation
