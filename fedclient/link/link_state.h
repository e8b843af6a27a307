// What Link's parts (calls, downloads, uploads) share. Internal to this folder.
#pragma once

#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "core/base/prng.h"
#include "fedclient/link/link.h"
#include "fedclient/link/transport.h"

namespace fedqueue {

struct Link::State {
  explicit State(std::unique_ptr<Transport> owned)
      : transport(std::move(owned)), random(std::random_device{}()) {}

  std::unique_ptr<Transport> transport;
  Prng random;  // spreads retries
};

}  // namespace fedqueue
