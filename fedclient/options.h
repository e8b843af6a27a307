// The settings of a facility's agent and of the jobs it submits, declared once for both programs of
// the client: fedclient reads them, fedclient-train knows that they are another's.
//
// How to reach the server (run, server, facility, kit, proxy) is in trainer/client_options.h.
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "core/config/option.h"

namespace fedqueue {

// A setting that goes to sbatch as it is: "sbatch.account" → --account.
struct SbatchWord {
  std::string name;
  std::string option;
  std::string help;
};
[[nodiscard]] const std::vector<SbatchWord>& sbatch_words();

// job_script, state_dir, sbatch.*: what a job of this facility looks like.
[[nodiscard]] std::vector<OptionSpec> job_options();
// poll_interval, jobs_max …: how the agent behaves.
[[nodiscard]] std::vector<OptionSpec> agent_options();
// log.level, log.json
[[nodiscard]] std::vector<OptionSpec> log_options();

// Names of all of the above, for fedclient-train.
[[nodiscard]] std::vector<std::string> agent_setting_names();
// Settings of fedclient-train's verbs that may stand in the same file or environment, and what the
// batch scripts read.
[[nodiscard]] std::vector<std::string> trainer_setting_names();

}  // namespace fedqueue
