// Models and updates in simulated worlds: plain bytes, for most purposes an array of floats.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/base/assert.h"

namespace fedqueue::simulation {

using Bytes = std::vector<std::byte>;
// Handed around without being copied.
using SharedBytes = std::shared_ptr<const Bytes>;

[[nodiscard]] inline Bytes to_bytes(std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

// REQUIRES: whole floats.
[[nodiscard]] inline std::span<const float> to_floats(std::span<const std::byte> bytes) {
  FEDQUEUE_ASSERT(bytes.size() % sizeof(float) == 0);
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

}  // namespace fedqueue::simulation
