// The settings of a facility's agent and of the jobs it submits, declared once for both programs of
// the client: fedclient reads them, fedclient-train knows that they are another's.
//
// How to reach the server (run, server, facility, kit, proxy) is in trainer/client_options.h.
//
// Thread safety: pure functions.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"
#include "fedclient/agent/loop.h"
#include "fedclient/agent/machine.h"
#include "fedclient/link/link.h"
#include "fedclient/scheduler/slurm.h"

namespace fedqueue {

// job_script, state_dir, sbatch.*: what a job of this facility looks like.
[[nodiscard]] std::vector<OptionSpec> job_options();
// poll_interval, jobs_max …: how the agent behaves.
[[nodiscard]] std::vector<OptionSpec> agent_options();
// log.level, log.json
[[nodiscard]] std::vector<OptionSpec> log_options();

// Settings of fedclient-train's verbs that may stand in the same file or environment.
[[nodiscard]] std::vector<std::string> trainer_setting_names();

// --state_dir, or ~/.local/state/fedqueue/RUN/FACILITY.
[[nodiscard]] std::filesystem::path state_directory(const Settings& settings, const RunId& run,
                                                    const std::string& facility);

[[nodiscard]] AgentSettings agent_settings(const Settings& settings);

// The sbatch options behind sbatch.*, as "--partition=gpu".
[[nodiscard]] std::vector<std::string> sbatch_options(const Settings& settings);

// Code::usage when job_script is not set or cannot be read.
Result<AgentJobProfile> job_profile(const Settings& settings, const LinkConfig& link,
                                    const std::string& facility,
                                    const std::filesystem::path& kit_directory);

[[nodiscard]] SlurmSettings slurm_settings(const Settings& settings, const RunId& run,
                                           const std::string& facility,
                                           std::map<std::string, std::string> environment,
                                           const Log& log);

Result<Log> make_log(const Settings& settings, const std::string& component);

}  // namespace fedqueue
