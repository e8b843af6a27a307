// The batch queue of each facility of a setting.
//
// Thread safety: a pure function.
#pragma once

#include <memory>

#include "simulation/federation/federation.h"
#include "simulation/world/batch_queue.h"

namespace fedqueue::simulation {

// REQUIRES: the logs that the setting names are read.
[[nodiscard]] Result<std::unique_ptr<BatchQueue>> make_queue(const Setting& setting, int facility,
                                                             std::uint64_t seed, const Logs& logs);

}  // namespace fedqueue::simulation
