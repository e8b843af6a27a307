// GPU buffers over NCCL, everything else over the collective below it (MPI, or one rank).
//
// The NCCL id travels over that collective, so no port of ours is opened; no NCCL_* variable is
// ever set here. Internal to this folder.
#pragma once

#include <memory>

#include "fedclient/collective/collective.h"

namespace fedqueue {

// Chooses the visible device (local rank; the only one if only one is visible), tells the other
// ranks its UUID, and refuses with Code::device when two ranks would share one.
Result<std::unique_ptr<Collective>> make_nccl_collective(std::unique_ptr<Collective> host,
                                                         int& gpu_ordinal);

}  // namespace fedqueue
