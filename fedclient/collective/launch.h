// Checks that the launcher and the message library agree, before anything is sent.
//
// `srun` without the right --mpi plugin starts n processes of which each is "rank 0 of 1": every
// one would register, train alone and upload. That is found here from the environment alone.
//
// Thread safety: pure functions.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/base/result.h"

namespace fedqueue {

// Reads one environment variable.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

[[nodiscard]] Environment process_variables();

// Tasks of the step this process belongs to, as Slurm, PBS-style launchers or PMIx say it; nothing
// when the process was started by hand or by a batch script itself.
[[nodiscard]] std::optional<int> launched_tasks(const Environment& environment);

// True when a launcher that MPI understands started this process, so that MPI_Init will find peers.
// Open MPI would end the process in MPI_Init under `srun --mpi=pmi2`, which other libraries need.
[[nodiscard]] bool started_by_mpi_launcher(const Environment& environment, bool open_mpi);

// Code::launch when `rank` of `size` cannot be right for the number of tasks started.
Status check_launch(int rank, int size, const Environment& environment);

}  // namespace fedqueue
