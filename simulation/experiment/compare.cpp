#include "simulation/experiment/compare.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>

namespace fedqueue::simulation {
namespace {

// Worse than any cell that ran: its accuracy lacks more than all.
constexpr double kFailedScore = 1e6;
// One percentage point of accuracy that lacks at the horizon counts like 10 % more time.
constexpr double kLackWeight = 10;

std::string untuned(const PolicySpec& policy) { return to_text(choices_of(policy, 1).front()); }

std::vector<CellKey> missing(const std::vector<CellKey>& wanted,
                             const std::map<CellKey, CellResult>& cells) {
  std::vector<CellKey> result;
  for (const CellKey& key : wanted) {
    const auto found = cells.find(key);
    if (found == cells.end() || !found->second.error.empty()) result.push_back(key);
  }
  return result;
}

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

std::vector<CellKey> tuning_cells(const Experiment& experiment) {
  std::vector<CellKey> cells;
  for (const Setting& setting : experiment.settings)
    for (const PolicySpec& policy : experiment.policies)
      for (const OptionList& choice : choices_of(policy, experiment.tuning_budget))
        for (const std::uint64_t seed : experiment.seeds_for_tuning())
          cells.push_back({Phase::tuning, setting.name, policy.name, seed, to_text(choice)});
  return cells;
}

double tuning_score(const CellResult& cell, const Setting& setting) {
  if (!cell.error.empty()) return kFailedScore;
  if (const auto reached = time_to_target_s(cell.curve, setting.target))
    return std::log(std::max(*reached, setting.evaluation_interval_s));
  const double lack = std::max(0.0, setting.target - cell.final_accuracy);
  return std::log(setting.horizon_s) + kLackWeight * lack;
}

Choices choose(const Experiment& experiment, const std::map<CellKey, CellResult>& cells) {
  Choices choices;
  for (const Setting& setting : experiment.settings) {
    for (const PolicySpec& policy : experiment.policies) {
      Choice best{choices_of(policy, 1).front(), std::numeric_limits<double>::infinity()};
      for (const OptionList& options : choices_of(policy, experiment.tuning_budget)) {
        double sum = 0;
        int seeds = 0;
        for (const std::uint64_t seed : experiment.seeds_for_tuning()) {
          const auto cell =
              cells.find({Phase::tuning, setting.name, policy.name, seed, to_text(options)});
          sum += cell == cells.end() ? kFailedScore : tuning_score(cell->second, setting);
          ++seeds;
        }
        if (seeds > 0 && sum / seeds < best.score) best = {options, sum / seeds};
      }
      choices[{setting.name, policy.name}] = best;
    }
  }
  return choices;
}

std::string best_of(Role role, const std::string& setting, const Experiment& experiment,
                    const Choices& choices) {
  std::string best;
  double score = std::numeric_limits<double>::infinity();
  for (const PolicySpec& policy : experiment.policies) {
    const auto choice = choices.find({setting, policy.name});
    if (policy.role != role || choice == choices.end()) continue;
    if (best.empty() || choice->second.score < score) {
      best = policy.name;
      score = choice->second.score;
    }
  }
  return best;
}

std::vector<CellKey> reported_cells(const Experiment& experiment, const Choices& choices) {
  std::set<CellKey> known;
  std::vector<CellKey> cells;
  for (const std::uint64_t seed : experiment.reported_seeds()) {
    for (const Setting& setting : experiment.settings) {
      for (const PolicySpec& policy : experiment.policies) {
        const std::string chosen = to_text(choices.at({setting.name, policy.name}).options);
        const CellKey tuned{Phase::tuned, setting.name, policy.name, seed, chosen};
        if (known.insert(tuned).second) cells.push_back(tuned);
      }
    }
  }
  for (const std::uint64_t seed : experiment.reported_seeds())
    for (const Setting& setting : experiment.settings)
      for (const PolicySpec& policy : experiment.policies)
        cells.push_back({Phase::equal, setting.name, policy.name, seed, untuned(policy)});
  return cells;
}

Result<Choices> run_comparison(const Experiment& experiment, int processes, ResultsFile& results,
                               const ComparisonHooks& hooks) {
  const Stopwatch stopwatch;
  const std::vector<CellKey> tuning = missing(tuning_cells(experiment), results.cells());
  // How many cells the second part has is known before which ones they are.
  std::size_t reported = reported_cells(experiment, choose(experiment, {})).size();
  Progress progress;
  const auto run = [&](const std::vector<CellKey>& cells, std::size_t more) -> Status {
    progress.total = progress.done + cells.size() + more;
    PoolHooks pool = hooks.pool;
    pool.finished = [&](const CellResult& cell) -> Status {
      if (Status status = results.append(cell); !status) return status;
      ++progress.done;
      progress.seconds_left = stopwatch.seconds() / static_cast<double>(progress.done) *
                              static_cast<double>(progress.total - progress.done);
      progress.last = to_text(cell.key) + (cell.error.empty() ? "" : ": " + cell.error);
      hooks.progress(progress);
      return {};
    };
    return run_cells(cells, processes, pool);
  };
  if (Status status = run(tuning, reported); !status) return status.error();
  Choices choices = choose(experiment, results.cells());
  // A cell with the untuned options is the same world twice: once computed, it is copied.
  std::vector<CellKey> open;
  std::vector<std::pair<CellKey, CellKey>> copies;
  for (const CellKey& key : missing(reported_cells(experiment, choices), results.cells())) {
    CellKey twin = key;
    twin.phase = Phase::tuned;
    const std::string chosen = to_text(choices.at({key.setting, key.policy}).options);
    if (key.phase == Phase::equal && key.choice == chosen) {
      copies.emplace_back(twin, key);
    } else {
      open.push_back(key);
    }
  }
  if (Status status = run(open, 0); !status) return status.error();
  for (const auto& [from, to] : copies) {
    CellResult copy = results.cells().at(from);
    copy.key = to;
    if (Status status = results.append(copy); !status) return status.error();
  }
  return choices;
}

}  // namespace fedqueue::simulation
