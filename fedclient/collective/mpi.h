// The collective over MPI. Internal to this folder and to nccl.cpp; others use collective.h.
#pragma once

#include <memory>

#include "fedclient/collective/collective.h"

namespace fedqueue {

// Initialises MPI (FUNNELED) and joins MPI_COMM_WORLD; its destructor finalises MPI.
Result<std::unique_ptr<Collective>> make_mpi_collective();

// Whether the library below is Open MPI.
[[nodiscard]] bool mpi_is_open_mpi();

}  // namespace fedqueue
