// Reads logs of batch jobs in the Standard Workload Format: one job a line, 18 numbers, `;` starts
// a comment, -1 means unknown.
//
// A line that is not 18 numbers is an error with its number, since a log that is read wrongly
// gives wrong experiments without a word. Rows that are well formed but of no use (no run time, no
// processors, a negative submit time) are kept and counted by usable_jobs(). Jobs are returned in
// the order of their submission, as some logs are not in order.
// Source: D. Feitelson, "The Standard Workload Format", Parallel Workloads Archive.
//
// Thread safety: pure functions on plain values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace fedqueue::simulation {

struct SwfJob {
  std::int64_t id = 0;
  double submit_s = 0;                // since the start of the log
  std::optional<double> wait_s;       // in the queue, as logged
  std::optional<double> run_s;        // from start to end
  std::int64_t processors = 0;        // allocated, or requested where that is unknown; 0: unknown
  std::optional<double> requested_s;  // the user's time limit
  std::int64_t user = -1;
  std::int64_t queue = -1;
};

struct SwfLog {
  std::vector<SwfJob> jobs;                    // by submit time
  std::optional<std::int64_t> processors_max;  // from the header's MaxProcs, or MaxNodes
};

// `name` is for errors.
[[nodiscard]] Result<SwfLog> parse_swf(std::string_view text, const std::string& name);
[[nodiscard]] Result<SwfLog> read_swf(const std::filesystem::path& path);

// Jobs that a scheduler can run: a positive run time and at least one processor.
[[nodiscard]] std::vector<SwfJob> usable_jobs(const SwfLog& log);

// The class of jobs that wait alike: the queue, and the size to the next power of two (1, 2, 3–4,
// 5–8, …). Unknown sizes count as 1.
struct JobClass {
  std::int64_t queue = -1;
  int size_exponent = 0;
  friend auto operator<=>(const JobClass&, const JobClass&) = default;
};
[[nodiscard]] JobClass class_of(const SwfJob& job);

}  // namespace fedqueue::simulation
