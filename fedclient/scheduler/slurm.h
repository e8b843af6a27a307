// Slurm through its own commands: sbatch, squeue, scontrol, scancel, and sacct where it works.
//
// Promises: no shell; every command has a kill timer and an output limit; one squeue per cluster
// and poll; SLURM_*, SQUEUE_* and SCANCEL_* of the surroundings do not reach the commands
// (SLURM_CONF does); nothing is cancelled whose owner and comment were not checked right before.
// Works without the plugin, without accounting and without job arrays.
//
// Thread safety: one call at a time.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "fedclient/agent/scheduler.h"
#include "fedclient/scheduler/command.h"

namespace fedqueue {

struct SlurmSettings {
  RunId run;
  FacilityId facility;
  std::vector<std::string> options;                // for sbatch: "--partition=gpu"
  std::vector<std::string> clusters;               // to look at besides the default one
  std::map<std::string, std::string> environment;  // this process's
  Duration command_time = std::chrono::seconds(30);
  Duration submit_time = std::chrono::seconds(60);
  std::size_t cancel_chunk = 50;
  Log log;
};

class SlurmScheduler : public Scheduler {
 public:
  explicit SlurmScheduler(SlurmSettings settings);

  Result<JobHandle> submit(const JobRequest& request) override;
  Result<std::vector<JobView>> poll() override;
  Result<std::optional<JobView>> find_by_token(const std::string& token) override;
  Result<JobOutcome> outcome(const JobHandle& handle) override;
  Result<CancelReport> cancel(const std::vector<JobView>& jobs) override;

  // Clusters that earlier jobs are on, to be asked as well.
  void know_cluster(const std::string& cluster);

  // Whether sbatch knows --fed-run; asked once.
  [[nodiscard]] bool has_plugin();
  // The exact command line that submit() runs.
  [[nodiscard]] std::vector<std::string> submit_arguments(const JobRequest& request);

 private:
  Result<CommandResult> run(std::vector<std::string> arguments, Duration time_max,
                            const std::map<std::string, std::string>& more, bool query);
  Result<std::vector<JobView>> squeue(const std::string& cluster);

  SlurmSettings settings_;
  std::map<std::string, std::string> environment_;
  std::string prefix_;
  std::set<std::string> clusters_;  // "" is the default one
  std::optional<bool> plugin_;
  bool sacct_works_ = true;
};

}  // namespace fedqueue
