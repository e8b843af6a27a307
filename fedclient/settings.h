// From settings (options.h) to what the agent, its jobs and the scheduler are made with.
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
#include "fedclient/options.h"
#include "fedclient/scheduler/slurm.h"

namespace fedqueue {

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
