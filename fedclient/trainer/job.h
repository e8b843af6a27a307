// One job's training for a run: rank 0 deals with the server, the other ranks follow.
//
// Rank 0 first sends what an earlier launch of this job left behind (snapshots), then lets the
// session decide: register, fetch, train, upload, again, until it is over. While a segment runs,
// its update so far is written at intervals, so that a job that is killed leaves something its next
// launch or the agent can send.
//
// Not thread-safe.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/log.h"
#include "core/base/result.h"
#include "fedclient/collective/collective.h"
#include "fedclient/session/session_loop.h"
#include "fedclient/trainer/queue_record.h"
#include "fedclient/trainer/trainer.h"

namespace fedqueue {

struct JobOptions {
  FacilityId facility;
  JobRecord record;
  std::string plan_key;  // of the agent's plan; empty if a person submitted the job
  std::filesystem::path job_directory;
  // Of the facility for this run, beside the jobs' directories, so that it outlives them.
  std::filesystem::path controls_directory;
  // Likewise: the optimiser's state and the places in schedule and data. Empty: none is kept.
  std::filesystem::path training_state;
  double keep_s = 60;                        // between two writes of it; 0: at the end alone
  double reserve_s = 30;                     // kept free before the allocation ends
  TrainingSettings training;                 // where the run itself says nothing
  std::function<std::string()> interrupted;  // non-empty: finish, for this reason
};

// A seed that differs between the attempts of a run, so that no two jobs begin with the same data.
[[nodiscard]] std::uint64_t seed_for_attempt(std::uint64_t seed, const FacilityId& facility,
                                             const AttemptId& attempt);

// Rank 0. Sends finished snapshots of earlier launches; what the server can never take is removed,
// the rest stays for the agent.
void send_leftovers(SessionServer& server, const JobOptions& options, const Log& log);

// Rank 0: the whole job; the result is the exit code. `heartbeats` must be another object than
// `server`. Afterwards the other ranks have been released, or the job was aborted.
int run_job(Trainer& trainer, Collective& collective, SessionServer& server,
            SessionServer& heartbeats, const JobOptions& options, const Log& log);

}  // namespace fedqueue
