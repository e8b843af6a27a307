// fedsim check and fedsim replay: the product under faults, in virtual time.
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "simulation/check/suite.h"
#include "simulation/fedsim/commands.h"

namespace fedqueue {
namespace {

using namespace simulation;

constexpr double seed_max = 9.2e18;

std::vector<OptionSpec> check_options() {
  return {{.name = "seeds",
           .kind = Kind::integer,
           .built_in = "2000",
           .help = "How many seeds are played.",
           .minimum = 1,
           .maximum = 1e9,
           .in_files = false},
          {.name = "first_seed",
           .kind = Kind::integer,
           .built_in = "0",
           .help = "The first of them.",
           .minimum = 0,
           .maximum = seed_max,
           .in_files = false},
          {.name = "failing",
           .kind = Kind::path,
           .help = "A file of seeds that once failed: they are played too, and new ones are added.",
           .in_files = false},
          {.name = "commit", .help = "A commit's hash, played as one more seed."},
          {.name = "threads",
           .kind = Kind::integer,
           .built_in = "0",
           .help = "Seeds played at a time; 0: one per core.",
           .minimum = 0,
           .maximum = 1024,
           .in_files = false},
          {.name = "seeds_only",
           .kind = Kind::flag,
           .help = "Neither ask for every mark nor plant bugs: for more seeds of another range.",
           .in_files = false},
          {.name = "verbose",
           .kind = Kind::flag,
           .help = "Also list the marks and the planted bugs with the seeds that reached them.",
           .short_form = 'v',
           .in_files = false}};
}

Result<SuiteOptions> suite_options(const Settings& settings) {
  SuiteOptions options;
  options.first_seed = static_cast<std::uint64_t>(settings.integer("first_seed"));
  options.seeds = static_cast<std::uint64_t>(settings.integer("seeds"));
  options.threads = static_cast<int>(settings.integer("threads"));
  options.marks = options.planted_bugs = !settings.flag("seeds_only");
  if (settings.has("failing")) {
    Result<std::vector<std::uint64_t>> seeds = read_seeds(settings.path("failing"));
    if (!seeds) return seeds.error();
    options.further_seeds = std::move(*seeds);
  }
  if (settings.has("commit")) {
    const Result<std::uint64_t> seed = seed_of_commit(settings.text("commit"));
    if (!seed) return seed.error();
    options.further_seeds.push_back(*seed);
  }
  if (::isatty(STDERR_FILENO) == 1) {
    options.progress = [](std::uint64_t done, std::uint64_t all) {
      if (done % 50 == 0 || done == all) {
        std::fprintf(stderr, "\r%llu/%llu%s", static_cast<unsigned long long>(done),
                     static_cast<unsigned long long>(all), done == all ? "\n" : "");
      }
    };
  }
  return options;
}

void list_points(const SuiteResult& result) {
  for (std::size_t i = 0; i < points::mark_count; ++i) {
    const auto mark = static_cast<points::Mark>(i);
    std::cout << "mark " << points::name_of(mark) << " in " << result.seeds_with_mark[i]
              << " seeds: " << points::meaning_of(mark) << "\n";
  }
  for (std::size_t i = 0; i < result.bug_seeds.size(); ++i) {
    const auto bug = static_cast<points::Bug>(i + 1);
    std::cout << "planted " << points::name_of(bug) << " found by seed " << result.bug_seeds[i]
              << ": " << points::meaning_of(bug) << "\n";
  }
}

void list_failures(const SuiteResult& result) {
  for (const FailedSeed& failed : result.failed) {
    std::cout << "seed " << failed.seed << ":\n";
    for (const Violation& violation : failed.violations) {
      std::printf("  %.6f s  %s\n", to_seconds(violation.at.time_since_epoch()),
                  violation.what.c_str());
    }
    std::cout << std::flush;
    std::printf("  The story: fedsim replay %llu\n", static_cast<unsigned long long>(failed.seed));
  }
  for (const points::Mark mark : result.marks_missed) {
    std::cout << "mark " << points::name_of(mark)
              << " was never reached: " << points::meaning_of(mark) << "\n";
  }
  for (const points::Bug bug : result.bugs_missed) {
    std::cout << "planted bug " << points::name_of(bug)
              << " was not found: " << points::meaning_of(bug) << "\n";
  }
}

Result<int> run_check(const Settings& settings) {
  const Result<SuiteOptions> options = suite_options(settings);
  if (!options) return options.error();
  const SuiteResult result = run_suite(*options);
  if (settings.flag("verbose")) list_points(result);
  list_failures(result);
  std::cout << std::flush;
  std::printf(
      "played %.1f hours in %llu events; after the faults the slowest run ended within "
      "%.0f s\n",
      result.virtual_s / 3600, static_cast<unsigned long long>(result.events),
      result.calm_longest_s);
  if (settings.has("failing") && !result.failed.empty()) {
    if (Status added = add_seeds(settings.path("failing"), result.failed); !added) {
      return added.error();
    }
  }
  std::printf("seeds=%llu violations=%zu marks_missed=%zu mutants_caught=%zu/%zu seconds=%.1f\n",
              static_cast<unsigned long long>(result.seeds), result.violations(),
              result.marks_missed.size(), result.bugs - result.bugs_missed.size(), result.bugs,
              result.seconds);
  return result.good() ? 0 : static_cast<int>(Code::internal);
}

Result<points::Bug> bug_named(const std::string& name) {
  for (std::size_t i = 0; i < points::bug_count; ++i) {
    const auto bug = static_cast<points::Bug>(i);
    if (points::name_of(bug) == name) return bug;
  }
  return Error{Code::usage, "there is no planted bug '" + name + "'",
               "fedsim check --verbose lists them."};
}

Result<int> run_replay(const Settings& settings) {
  const std::vector<std::string>& arguments = settings.arguments();
  points::Bug bug = points::Bug::none;
  if (settings.has("planted")) {
    const Result<points::Bug> named = bug_named(settings.text("planted"));
    if (!named) return named.error();
    bug = *named;
  }
  char* end = nullptr;
  const std::uint64_t seed = std::strtoull(arguments.front().c_str(), &end, 10);
  if (arguments.front().empty() || *end != '\0') {
    return Error{Code::usage, "'" + arguments.front() + "' is no seed", "Give a number from 0."};
  }
  const auto tell = [](Instant at, const std::string& who, const std::string& text) {
    std::printf("%12.6f  %-10s %s\n", to_seconds(at.time_since_epoch()), who.c_str(), text.c_str());
  };
  const SeedResult result = play_seed(seed, tell, bug);
  std::printf("seed=%llu violations=%zu versions=%lld events=%llu virtual_s=%.0f hash=%s\n",
              static_cast<unsigned long long>(seed), result.violations.size(),
              static_cast<long long>(result.versions),
              static_cast<unsigned long long>(result.events), result.virtual_s,
              result.hash.c_str());
  return result.violations.empty() ? 0 : static_cast<int>(Code::internal);
}

}  // namespace

Command check_command() {
  Command command;
  command.verb = "check";
  command.summary = "Play federations under faults, and check that nothing wrong ever happens";
  command.details =
      "Each seed is a small federation of the real server, agents and jobs on virtual time, with "
      "its own faults: requests lost, doubled and cut, processes killed at any point, disks that "
      "forget and get full, schedulers that lie, facilities that cheat. It is played twice and "
      "must tell the same story. Then the faults stop, and every round must end. The suite also "
      "fails when a rare branch is never reached, or when one of the bugs that are planted on "
      "purpose is not found. See docs/simulation.md.";
  command.examples = {"fedsim check", "fedsim check --seeds 200 --verbose",
                      "fedsim check --first-seed 100000 --seeds 50000 --seeds-only"};
  command.options = check_options();
  command.run = run_check;
  return command;
}

Command replay_command() {
  Command command;
  command.verb = "replay";
  command.summary = "Tell the story of one seed of fedsim check, line by line";
  command.examples = {"fedsim replay 95", "fedsim replay 7 --planted lease_never_ends | less"};
  command.options = {{.name = "planted", .help = "Plant this bug first.", .in_files = false}};
  command.arguments = {{.name = "seed", .help = "The seed."}};
  command.run = run_replay;
  return command;
}

}  // namespace fedqueue
