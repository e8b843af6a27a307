// Model files in and update files out, between disk and the packed state of a Network.
//
// Reading checks names, types and shapes against the architecture before any data is used. An
// update holds, for each float tensor, its difference to the base, and for each integer tensor the
// new value; names, types, shapes and metadata are the base's own.
//
// Thread safety: the functions may be called from any thread on distinct paths.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/tensor/manifest.h"
#include "fedclient/trainer/network.h"

namespace fedqueue {

// What a model file says about itself, without its data.
Result<tensor::Manifest> read_manifest(const std::filesystem::path& path);

// The data in the order of `expected`, without control variates. Code::model_mismatch names tensors
// that are missing, extra, reshaped or retyped.
Result<std::vector<std::byte>> read_state(const std::filesystem::path& path,
                                          const tensor::Manifest& expected);

// Replaces in `state` what the file has under the same names, and returns how many tensors that
// were. Code::model_mismatch when one has another shape or type, or there is none.
Result<std::size_t> read_matching(const std::filesystem::path& path, const tensor::Manifest& layout,
                                  std::span<std::byte> state);

// Writes packed state as a file, whole or not at all.
Status write_state(const std::filesystem::path& path, const tensor::Manifest& layout,
                   std::span<const std::byte> state);

// Replaces `state` by its difference to `base` as described above. Code::not_finite names a tensor
// that holds NaN or Inf. REQUIRES: both are laid out by `layout`.
Status subtract_base(const tensor::Manifest& layout, std::span<const std::byte> base,
                     std::span<std::byte> state);

}  // namespace fedqueue
