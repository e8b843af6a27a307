// What the agent needs of a batch scheduler. Slurm is behind it (fedclient/scheduler); tests and
// the simulator play it.
//
// Errors: scheduler_missing, scheduler_refused and others that no waiting can cure;
// scheduler_limit for "not now"; try_again when it is not known whether anything happened.
//
// Thread safety: one call at a time.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

struct JobRequest {
  std::string token;    // unique; the last part of the comment
  std::string comment;  // fedqueue:RUN:FACILITY:TOKEN
  std::string name;
  std::filesystem::path script;
  std::filesystem::path output;  // as the scheduler writes it, with its own %-signs
  double time_limit_s = 0;       // 0: none asked for
  std::map<std::string, std::string> environment;  // for the job, beside this process's own
  std::map<std::string, std::string>
      plugin_options;  // "fed-run" → "mnist", where there is a plugin
};

struct JobHandle {
  std::string id;
  std::string cluster;  // empty: the default one
  friend bool operator==(const JobHandle&, const JobHandle&) = default;
};

enum class JobPhase {
  queued,
  running,  // includes configuring, completing and suspended: its processes may be there
  ended,
  unknown,  // a word of the scheduler that is not known here: taken for alive
};

[[nodiscard]] const char* to_text(JobPhase phase);

struct JobView {
  JobHandle handle;
  std::string token;
  JobPhase phase = JobPhase::unknown;
  std::string state;   // the scheduler's word
  std::string reason;  // why it waits or ended
  int restart_count = 0;
  std::optional<double> expected_wait_s;  // the scheduler's own estimate for a queued job
};

// What is known of one job after it left the queue's listing.
struct JobOutcome {
  bool known = false;
  JobPhase phase = JobPhase::unknown;
  std::string state;
  std::string detail;  // reason, exit code, where the output is
  std::optional<int> restart_count;
};

struct CancelReport {
  std::vector<std::string> cancelled;  // job ids that a cancel was sent for
  std::vector<std::string> not_ours;   // the token or the owner did not fit: left alone
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  virtual Result<JobHandle> submit(const JobRequest& request) = 0;
  // All jobs of this run and facility that the scheduler still shows, ended ones included, in one
  // query per cluster.
  virtual Result<std::vector<JobView>> poll() = 0;
  // Exact match. No value: it is not shown, which does not prove that it does not exist.
  virtual Result<std::optional<JobView>> find_by_token(const std::string& token) = 0;
  virtual Result<JobOutcome> outcome(const JobHandle& handle) = 0;
  // Cancels jobs after checking that owner and token are right.
  virtual Result<CancelReport> cancel(const std::vector<JobView>& jobs) = 0;
};

}  // namespace fedqueue
