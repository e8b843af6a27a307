// The suite: many seeds, each played twice and expected to tell the same story both times and to
// violate nothing; every mark reached by some of them; every planted bug found by one of them.
//
// Thread safety: one suite runs at a time; it uses threads of its own, one world per thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "simulation/check/run.h"

namespace fedqueue::simulation {

struct SuiteOptions {
  std::uint64_t first_seed = 0;
  std::uint64_t seeds = 2000;
  std::vector<std::uint64_t> further_seeds;  // of earlier failures, of the commit
  int threads = 0;                           // 0: as many as there are processors
  bool marks = true;                         // a mark that is never reached is a failure
  bool planted_bugs = true;
  // Seeds that a planted bug has to be found in, counted from first_seed.
  std::uint64_t seeds_per_bug = 2000;
  // Called now and then, from any thread, with what is done and what there is to do.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;
};

struct FailedSeed {
  std::uint64_t seed = 0;
  std::vector<Violation> violations;
};

struct SuiteResult {
  std::uint64_t seeds = 0;
  std::vector<FailedSeed> failed;
  std::vector<points::Mark> marks_missed;
  std::vector<points::Bug> bugs_missed;
  std::size_t bugs = 0;
  points::MarkCounts seeds_with_mark{};  // how many seeds reached each mark
  std::vector<std::uint64_t> bug_seeds;  // the seed in which each bug was found, in their order
  std::uint64_t events = 0;
  double virtual_s = 0;
  double calm_longest_s = 0;
  double seconds = 0;

  [[nodiscard]] bool good() const {
    return failed.empty() && marks_missed.empty() && bugs_missed.empty();
  }
  [[nodiscard]] std::size_t violations() const;
};

[[nodiscard]] SuiteResult run_suite(const SuiteOptions& options);

// A seed twice: the violations of the first time, and one more if the second time differs.
[[nodiscard]] SeedResult play_twice(std::uint64_t seed);

// --- seeds that once failed

// One seed a line, `#` starts a comment. A file that is not there holds none.
[[nodiscard]] Result<std::vector<std::uint64_t>> read_seeds(const std::filesystem::path& path);
// Appends those that are not there yet, each with what it found.
[[nodiscard]] Status add_seeds(const std::filesystem::path& path,
                               const std::vector<FailedSeed>& failed);

// The seed that stands for a commit: the first 15 of its hexadecimal digits.
[[nodiscard]] Result<std::uint64_t> seed_of_commit(const std::string& commit);

}  // namespace fedqueue::simulation
