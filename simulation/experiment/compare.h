// Which cells a comparison consists of, how options are chosen from the tuning cells, and in which
// order everything is run.
//
// Thread safety: pure functions; run_comparison() as its hooks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "simulation/experiment/cell.h"
#include "simulation/experiment/experiment.h"
#include "simulation/experiment/pool.h"
#include "simulation/experiment/results_file.h"

namespace fedqueue::simulation {

// Every setting, policy, choice within the budget and tuning seed. A policy with one choice only
// still runs, since the best baseline is chosen on these cells.
[[nodiscard]] std::vector<CellKey> tuning_cells(const Experiment& experiment);

// How good a cell is, smaller is better: the logarithm of the time to the target; beyond the
// horizon's, by how much accuracy is lacking, if it was not reached.
[[nodiscard]] double tuning_score(const CellResult& cell, const Setting& setting);

struct Choice {
  OptionList options;
  double score = 0;  // mean over the tuning seeds
};
using Choices = std::map<std::pair<std::string, std::string>, Choice>;  // by setting and policy

// The best choice of every policy in every setting. Cells that failed count as never reaching
// anything; among equals the earlier choice wins. Without tuning seeds: the untuned choices.
[[nodiscard]] Choices choose(const Experiment& experiment,
                             const std::map<CellKey, CellResult>& cells);

// The policy of that role with the best tuning score in a setting; empty if there is none.
[[nodiscard]] std::string best_of(Role role, const std::string& setting,
                                  const Experiment& experiment, const Choices& choices);

// What is reported: with the chosen options on every reported seed, and with the untuned ones.
[[nodiscard]] std::vector<CellKey> reported_cells(const Experiment& experiment,
                                                  const Choices& choices);

struct Progress {
  std::size_t done = 0;
  std::size_t total = 0;  // as far as known: reported cells are counted from the beginning
  double seconds_left = 0;
  std::string last;  // the cell that finished
};

struct ComparisonHooks {
  PoolHooks pool;  // `finished` is the comparison's own
  std::function<void(const Progress&)> progress = [](const Progress&) {};
};

// Runs what is missing in `results` and returns the choices. Cells that failed are run once more
// at the next call, not in this one.
[[nodiscard]] Result<Choices> run_comparison(const Experiment& experiment, int processes,
                                             ResultsFile& results, const ComparisonHooks& hooks);

}  // namespace fedqueue::simulation
