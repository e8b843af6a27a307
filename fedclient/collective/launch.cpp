#include "fedclient/collective/launch.h"

#include <cstdlib>

#include "core/base/text.h"

namespace fedqueue {
namespace {

std::optional<std::int64_t> number(const Environment& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  return text ? parse_integer(*text) : std::nullopt;
}

}  // namespace

Environment process_variables() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::optional<int> launched_tasks(const Environment& environment) {
  // mpirun says it for its own processes, also inside a Slurm job whose figures mean the batch
  // step.
  if (const auto size = number(environment, "OMPI_COMM_WORLD_SIZE")) return static_cast<int>(*size);
  // A batch script is one process, whatever --ntasks says; its own step carries no task count of
  // its own, and SLURM_NTASKS there speaks of the job.
  const auto step_tasks = number(environment, "SLURM_STEP_NUM_TASKS");
  const bool in_step = environment("SLURM_STEP_ID").has_value() && step_tasks.has_value();
  if (in_step) return static_cast<int>(*step_tasks);
  if (environment("SLURM_STEP_ID").has_value() && environment("SLURM_PROCID").has_value()) {
    if (const auto tasks = number(environment, "SLURM_NTASKS")) return static_cast<int>(*tasks);
  }
  if (const auto size = number(environment, "PMI_SIZE")) return static_cast<int>(*size);
  return std::nullopt;
}

bool started_by_mpi_launcher(const Environment& environment, bool open_mpi) {
  if (environment("OMPI_COMM_WORLD_SIZE") || environment("PMIX_RANK")) return true;
  return !open_mpi && (environment("PMI_RANK") || environment("PMI_SIZE"));
}

Status check_launch(int rank, int size, const Environment& environment) {
  const std::optional<int> tasks = launched_tasks(environment);
  if (!tasks || *tasks == size) return {};
  const bool slurm =
      environment("SLURM_STEP_ID").has_value() && !environment("OMPI_COMM_WORLD_SIZE");
  return Error{Code::launch,
               "start training: rank " + std::to_string(rank) + " of " + std::to_string(size) +
                   ", but " + (slurm ? "Slurm" : "the launcher") + " started " +
                   std::to_string(*tasks) + " tasks: the launcher and the MPI library do not match",
               "Use srun --mpi=pmix (see srun --mpi=list) or mpirun."};
}

}  // namespace fedqueue
