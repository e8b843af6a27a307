#include "fedclient/collective/collective.h"
#include "fedclient/collective/launch.h"
#ifdef FEDQUEUE_HAVE_MPI
#include "fedclient/collective/mpi.h"
#endif
#ifdef FEDQUEUE_HAVE_NCCL
#include "fedclient/collective/nccl.h"
#endif

namespace fedqueue {

bool built_with_mpi() {
#ifdef FEDQUEUE_HAVE_MPI
  return true;
#else
  return false;
#endif
}

bool built_with_nccl() {
#ifdef FEDQUEUE_HAVE_NCCL
  return true;
#else
  return false;
#endif
}

namespace {

Result<std::unique_ptr<Collective>> launch_host() {
  const Environment environment = process_variables();
#ifdef FEDQUEUE_HAVE_MPI
  // Without a launcher MPI would start as "rank 0 of 1" and, with some builds, look for daemons:
  // a single process needs none of it.
  if (started_by_mpi_launcher(environment, mpi_is_open_mpi())) {
    Result<std::unique_ptr<Collective>> mpi = make_mpi_collective();
    if (!mpi) return mpi.error();
    if (Status status = check_launch((*mpi)->rank(), (*mpi)->size(), environment); !status) {
      return status.error();
    }
    return mpi;
  }
#endif
  if (Status status = check_launch(0, 1, environment); !status) {
    Error error = status.error();
    if (!built_with_mpi()) {
      error.cure = "This build has no MPI: start one task, or build with -DFEDQUEUE_WITH_MPI=ON.";
    }
    return error;
  }
  return make_single_collective();
}

}  // namespace

Result<std::unique_ptr<Collective>> launch(CollectiveOptions& options) {
  Result<std::unique_ptr<Collective>> host = launch_host();
  if (!host || !options.gpu) return host;
#ifdef FEDQUEUE_HAVE_NCCL
  return make_nccl_collective(std::move(*host), options.gpu_ordinal);
#else
  if ((*host)->size() == 1) return host;
  return Error{Code::device, "train on several GPUs: this build has no NCCL",
               "Build with -DFEDQUEUE_WITH_CUDA=ON, or train with --device cpu."};
#endif
}

}  // namespace fedqueue
