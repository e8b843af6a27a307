#include "simulation/check/suite.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace fedqueue::simulation {
namespace {

using points::Bug;
using points::Mark;

// Threads that share one list of tasks.
void in_parallel(int threads, std::uint64_t count, const std::function<void(std::uint64_t)>& task) {
  std::atomic<std::uint64_t> next = 0;
  const auto work = [&] {
    for (std::uint64_t i = next++; i < count; i = next++) task(i);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
}

class Suite {
 public:
  explicit Suite(const SuiteOptions& options) : options_(options) {
    threads_ = options.threads > 0
                   ? options.threads
                   : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  SuiteResult run() {
    const auto started = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < options_.seeds; ++i) seeds_.push_back(options_.first_seed + i);
    seeds_.insert(seeds_.end(), options_.further_seeds.begin(), options_.further_seeds.end());
    if (options_.planted_bugs) result_.bugs = points::bug_count - 1;
    all_ = seeds_.size() + result_.bugs;
    in_parallel(threads_, seeds_.size(), [this](std::uint64_t i) { play(seeds_[i]); });
    for (const FailedSeed& one : result_.failed) failing_.insert(one.seed);
    result_.bug_seeds.resize(result_.bugs);
    in_parallel(threads_, result_.bugs, [this](std::uint64_t i) { hunt(i); });
    conclude();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    result_.seconds = took.count();
    return std::move(result_);
  }

 private:
  void play(std::uint64_t seed) {
    SeedResult played = play_twice(seed);
    const std::lock_guard lock(mutex_);
    ++result_.seeds;
    result_.events += played.events;
    result_.virtual_s += played.virtual_s;
    result_.calm_longest_s = std::max(result_.calm_longest_s, played.calm_s);
    for (std::size_t i = 0; i < points::mark_count; ++i) {
      result_.seeds_with_mark[i] += played.marks[i] > 0 ? 1 : 0;
    }
    if (!played.violations.empty()) {
      result_.failed.push_back({seed, std::move(played.violations)});
    }
    report();
  }

  // Whether the checks find the bug that is planted.
  void hunt(std::uint64_t index) {
    const Bug bug = static_cast<Bug>(index + 1);
    bool found = false;
    std::uint64_t seed = options_.first_seed;
    for (std::uint64_t i = 0; i < options_.seeds_per_bug && !found; ++i) {
      seed = options_.first_seed + i;
      if (failing_.contains(seed)) continue;  // proves nothing
      found = !play_seed(seed, {}, bug).violations.empty();
    }
    const std::lock_guard lock(mutex_);
    if (found) {
      result_.bug_seeds[index] = seed;
    } else {
      result_.bugs_missed.push_back(bug);
    }
    report();
  }

  // REQUIRES: mutex_ held.
  void report() {
    ++done_;
    if (options_.progress) options_.progress(done_, all_);
  }

  void conclude() {
    std::sort(result_.failed.begin(), result_.failed.end(),
              [](const FailedSeed& a, const FailedSeed& b) { return a.seed < b.seed; });
    std::sort(result_.bugs_missed.begin(), result_.bugs_missed.end());
    if (!options_.marks) return;
    for (std::size_t i = 0; i < points::mark_count; ++i) {
      if (result_.seeds_with_mark[i] == 0) result_.marks_missed.push_back(static_cast<Mark>(i));
    }
  }

  const SuiteOptions& options_;
  int threads_ = 1;
  std::vector<std::uint64_t> seeds_;
  std::set<std::uint64_t> failing_;
  std::mutex mutex_;
  SuiteResult result_;      // guarded by mutex_ while threads run
  std::uint64_t done_ = 0;  // guarded by mutex_
  std::uint64_t all_ = 0;
};

}  // namespace

std::size_t SuiteResult::violations() const {
  std::size_t count = 0;
  for (const FailedSeed& one : failed) count += one.violations.size();
  return count;
}

SuiteResult run_suite(const SuiteOptions& options) { return Suite(options).run(); }

SeedResult play_twice(std::uint64_t seed) {
  SeedResult first = play_seed(seed);
  const SeedResult second = play_seed(seed);
  if (first.hash != second.hash) {
    first.violations.push_back({Instant{}, "two runs of this seed tell two stories: " + first.hash +
                                               " and " + second.hash});
  }
  return first;
}

}  // namespace fedqueue::simulation
