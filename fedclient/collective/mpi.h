// The collective over MPI. Internal to this folder and to nccl.cpp; others use collective.h.
#pragma once

#include <memory>

#include "fedclient/collective/collective.h"

namespace fedqueue {

// Initialises MPI (SERIALIZED, or FUNNELED where there is no more: sums then do not overlap) and
// joins MPI_COMM_WORLD; its destructor finalises MPI. FEDQUEUE_RANKS_PER_NODE=k, the same on all
// ranks, has sums made as if each k ranks in turn were those of a node, as a test on one host
// needs.
Result<std::unique_ptr<Collective>> make_mpi_collective();

// Whether the library below is Open MPI.
[[nodiscard]] bool mpi_is_open_mpi();

}  // namespace fedqueue
