// What the parts of one process of the simulated server have in common: its clock, its driver, and
// a way to do something later that ends with the process.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <string>

#include "fedserver/blobs/blobs.h"
#include "fedserver/driver/driver.h"
#include "simulation/world/algebra.h"
#include "simulation/world/disk.h"
#include "simulation/world/witness.h"

namespace fedqueue::simulation {

struct ServerProcess {
  // After so many seconds, unless the process is over by then.
  std::function<void(double, const char*, std::function<void()>)> later;
  std::function<bool(Event, fedqueue::Reply)> post;
  std::function<void(Event)> complete;  // of an action
  std::function<const Engine&()> engine;
  std::function<std::string()> fresh_token;
  SimulatedDisk& disk;
  BlobStore& blobs;
  ModelAlgebra& algebra;
  Witness& witness;
  double reduce_s = 0.1;  // of a reduction
  double screen_s = 0.01;
  double norm_max = 0;
  std::function<bool()> repeats;  // whether an action is done twice; may be empty
};

}  // namespace fedqueue::simulation
