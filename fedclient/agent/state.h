// What an agent must not forget: the job it means to submit, and the jobs it has.
//
//   STATE_DIRECTORY/lock          held while an agent runs
//   STATE_DIRECTORY/intent.json   written before sbatch: the token and the plan behind it
//   STATE_DIRECTORY/jobs.json     live jobs, and ended ones that the server does not know of yet
//   STATE_DIRECTORY/jobs/TOKEN/   the job's own folder: output, snapshots
//
// Thread safety: one owner.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/protocol/messages.h"
#include "fedclient/agent/scheduler.h"

namespace fedqueue {

struct Intent {
  std::string token;     // also the plan's key
  bool planned = false;  // the server said submit
  PlanAnswer plan;
};

struct TrackedJob {
  std::string token;
  JobHandle handle;
  JobPhase phase = JobPhase::queued;
  std::string state;
  std::string reason;
  int restart_count = 0;
  bool seen = false;  // the scheduler showed it at least once
  double time_limit_s = 0;
  std::string detail;  // of its end
};

struct AgentState {
  std::optional<Intent> intent;
  std::vector<TrackedJob> jobs;
};

class AgentStore {
 public:
  explicit AgentStore(std::filesystem::path directory) : directory_(std::move(directory)) {}

  // An empty state if nothing was stored yet; a file that cannot be understood is an error, since
  // starting over could submit a second job.
  [[nodiscard]] Result<AgentState> load() const;
  // Durable when it returns. The jobs first: a job that is in both files was submitted.
  Status save(const AgentState& state) const;

  // Removes the folders of jobs that are over, but the newest `kept`, which people may want to
  // read. Folders of jobs in `state` stay. What cannot be removed stays too.
  void remove_old_jobs(const AgentState& state, std::size_t kept) const;

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
  [[nodiscard]] std::filesystem::path lock_file() const { return directory_ / "lock"; }
  [[nodiscard]] std::filesystem::path job_directory(const std::string& token) const {
    return directory_ / "jobs" / token;
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace fedqueue
