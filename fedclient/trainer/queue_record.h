// How this job came through its queue: the scheduler's own times, all from one cluster's clock.
//
// The plugin hands the record to the tasks in FED_*. Without it `scontrol show job` is asked once,
// with a kill timer. Outside a Slurm job there is no record, and the attempt gets a made-up id.
//
// Thread safety: the functions may be called from any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/protocol/messages.h"
#include "fedclient/collective/launch.h"

namespace fedqueue {

struct JobRecord {
  AttemptId attempt;
  QueueRecord queue;
  std::optional<std::int64_t> start_s;  // since the epoch, on the cluster's clock
  std::string source;                   // "plugin", "scontrol", "none"
};

// Runs `scontrol show job -o ID` and returns what it printed; an error when it fails or takes
// longer than the timer allows.
using AskScheduler = std::function<Result<std::string>(const std::string& job_id)>;

[[nodiscard]] AskScheduler ask_scontrol(double timeout_s = 10);

// `now_s` is the time since the epoch. Code::usage when the plugin found a bad --fed-* option and
// says so in FED_ERROR.
Result<JobRecord> read_job_record(const Environment& environment, const AskScheduler& ask,
                                  std::int64_t now_s);

// One job's line of `scontrol show job -o`, with times as seconds since the epoch.
Result<JobRecord> parse_scontrol(const std::string& text, const std::string& job_id,
                                 std::int64_t now_s);

}  // namespace fedqueue
