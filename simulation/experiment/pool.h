// Runs cells in child processes, several at a time.
//
// Each cell has a process of its own (a fork of this one), so that worlds share nothing, every one
// has its single LibTorch thread, and a crash costs one cell: it is reported as that cell's error.
// The parent must not have started LibTorch's threads; data that it loaded before is shared.
//
// Not thread-safe: one pool per process at a time, from its only thread.
#pragma once

#include <functional>
#include <span>

#include "core/base/result.h"
#include "simulation/experiment/cell.h"

namespace fedqueue::simulation {

struct PoolHooks {
  // In the child: computes the cell.
  std::function<CellResult(const CellKey&)> compute;
  // In the parent, as they finish, in no particular order. An error ends the pool.
  std::function<Status(const CellResult&)> finished;
  // In the parent, several times a second: true stops (children are ended, nothing more starts).
  std::function<bool()> interrupted = [] { return false; };
};

// REQUIRES: processes ≥ 1. Code::try_again when interrupted.
[[nodiscard]] Status run_cells(std::span<const CellKey> cells, int processes,
                               const PoolHooks& hooks);

}  // namespace fedqueue::simulation
