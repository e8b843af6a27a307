// Reading what Slurm's commands print.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "fedclient/agent/scheduler.h"

namespace fedqueue {

// What a state word means; long and short forms, "COMPLETED+", "CANCELLED by 1000".
[[nodiscard]] JobPhase slurm_phase(std::string_view state);
// The long form where it is known: "TO" → "TIMEOUT".
[[nodiscard]] std::string slurm_state(std::string_view state);

// "123" or "123;cluster", the last line that is one of them.
[[nodiscard]] Result<JobHandle> parse_parsable(std::string_view output);

// The format for squeue -O that parse_squeue reads.
[[nodiscard]] const std::string& squeue_format();
// Lines whose comment begins with `prefix`, which ends with the colon before the token. `now_s` is
// the time of the query (seconds since 1970) for the expected wait.
[[nodiscard]] std::vector<JobView> parse_squeue(std::string_view output, std::string_view prefix,
                                                const std::string& cluster, double now_s);

// One line of `scontrol -o show job`.
[[nodiscard]] std::optional<std::string> scontrol_field(std::string_view line,
                                                        std::string_view name);
[[nodiscard]] JobOutcome parse_scontrol(std::string_view line);

// `sacct -X -n -P -o State,ExitCode`.
[[nodiscard]] JobOutcome parse_sacct(std::string_view output);

// What a command's complaint means; `doing` is for the message.
[[nodiscard]] Error slurm_error(const std::string& doing, std::string_view complaint);

// Minutes, rounded up, as --time takes them.
[[nodiscard]] std::string slurm_time(double seconds);

}  // namespace fedqueue
