// Performs an AgentMachine's steps with a scheduler, a server and a state directory, and writes one
// log line per event.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "core/base/ids.h"
#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "fedclient/agent/machine.h"
#include "fedclient/agent/scheduler.h"
#include "fedclient/agent/state.h"

namespace fedqueue {

// What the agent asks of the federation's server.
class AgentServer {
 public:
  virtual ~AgentServer() = default;
  virtual Result<PlanAnswer> plan(const PlanRequest& request) = 0;
  // Sends what a job left in its folder and the server does not have; the number of updates
  // that it took.
  virtual Result<int> deliver(const std::filesystem::path& job_directory) = 0;
  // not_found is fine: a job that never started never registered.
  virtual Status end_job(const AttemptId& attempt, const JobEnd& end) = 0;
};

struct AgentJobProfile {
  RunId run;
  FacilityId facility;
  std::filesystem::path script;
  double time_limit_s = 0;                            // the site's; 0: none
  std::map<std::string, std::string> environment;     // for every job
  std::map<std::string, std::string> plugin_options;  // "fed-run" → …
};

struct AgentLoopSettings {
  AgentJobProfile profile;
  std::size_t job_folders_kept = 50;  // of jobs that are over
  std::function<Instant()> now;
  // Sleeps until then at the latest; returns earlier when a signal came.
  std::function<void(Instant)> sleep_until;
  // The name of the signal that came since the last question, or empty.
  std::function<std::string()> signal = [] { return std::string(); };
};

// fedqueue:RUN:FACILITY:TOKEN
[[nodiscard]] std::string job_comment(const RunId& run, const FacilityId& facility,
                                      const std::string& token);

// The job that a plan asks for.
[[nodiscard]] JobRequest job_request(const AgentJobProfile& profile, const AgentStore& store,
                                     const Intent& intent);

// Until the machine is over; the result is the exit code.
int run_agent(AgentMachine& machine, Scheduler& scheduler, AgentServer& server,
              const AgentStore& store, const AgentLoopSettings& settings, const Log& log);

}  // namespace fedqueue
