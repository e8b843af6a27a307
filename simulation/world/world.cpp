#include "simulation/world/world.h"

#include <utility>

namespace fedqueue::simulation {
namespace {

ServerSetup seeded(ServerSetup setup, std::uint64_t seed) {
  setup.seed = stream_seed(seed, "tokens");
  return setup;
}

}  // namespace

World::World(std::uint64_t seed, ServerSetup server, SimTrainer& trainer, Witness& witness,
             WorldFaults faults, ModelAlgebra* algebra)
    : seed_(seed),
      trainer_(trainer),
      witness_(witness),
      faults_(faults),
      server_(clock_, seeded(std::move(server), seed), algebra != nullptr ? *algebra : floats_,
              witness, faults.disk),
      network_(clock_, server_, faults.network) {}

World::~World() = default;

Facility& World::add_facility(FacilitySetup setup, BatchQueue& queue) {
  const std::uint64_t seed = stream_seed(seed_, "facility", facilities_.size());
  const FacilityId id = setup.id;
  auto made =
      std::make_unique<Facility>(clock_, network_, std::move(setup), queue, trainer_, witness_,
                                 seed, Facility::Faults{faults_.scheduler, faults_.agent});
  return *(facilities_[id] = std::move(made));
}

void World::start() {
  server_.start();
  for (const auto& [id, facility] : facilities_) facility->start_agent();
}

}  // namespace fedqueue::simulation
