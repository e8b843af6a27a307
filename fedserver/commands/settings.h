// The settings of a run: declared once, read by every verb, written by `fedserver init`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/config/option.h"
#include "core/config/settings.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {

// Where things are in a run directory.
struct RunDirectory {
  std::filesystem::path root;

  [[nodiscard]] std::filesystem::path config() const { return root / "config.ini"; }
  [[nodiscard]] std::filesystem::path server() const { return root / "server"; }
  [[nodiscard]] std::filesystem::path journal() const { return server() / "journal.sqlite"; }
  [[nodiscard]] std::filesystem::path lock() const { return server() / "lock"; }
  // "https://127.0.0.1:PORT", written by a running server.
  [[nodiscard]] std::filesystem::path endpoint() const { return server() / "endpoint"; }
  // The kit that fedserver's own verbs use, made by init.
  [[nodiscard]] std::filesystem::path operator_kit() const { return root / "operators" / "local"; }
  [[nodiscard]] std::filesystem::path logs() const { return root / "logs"; }
  [[nodiscard]] std::filesystem::path metrics() const { return root / "metrics"; }
};

// The run directory that a verb's first argument names; the current one without.
[[nodiscard]] RunDirectory run_directory(const Settings& settings);

[[nodiscard]] std::vector<OptionSpec> run_options();

// The same, for verbs that only need to find the run: accepted, and left out of their help.
[[nodiscard]] std::vector<OptionSpec> hidden_run_options();

// Of the policy's options alone; the names are PolicyConfig's.
[[nodiscard]] std::vector<OptionSpec> policy_options();

[[nodiscard]] Result<EngineConfig> engine_config(const Settings& settings);

}  // namespace fedqueue
