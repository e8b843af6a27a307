// The look at an update before it counts as stored: is it of this model, is it made of numbers, is
// it of a believable size.
//
// The file is read once, in pieces, by the calling thread.
//
// Thread safety: may be called from many threads.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/base/result.h"
#include "core/tensor/manifest.h"

namespace fedqueue {

struct ScreenLimits {
  // Euclidean length of all float tensors together, without control variates, which are no part of
  // the model; 0: no limit.
  double norm_max = 0;
};

struct ScreenReport {
  double norm = 0;
  std::uint64_t bytes = 0;     // of the file
  std::uint64_t elements = 0;  // of all tensors
};

// Fails with model_format (not a safetensors file), model_mismatch (a tensor is missing, extra,
// reshaped or retyped), not_finite (NaN or infinity, with tensor and element) and aggregation (the
// norm is above the limit).
[[nodiscard]] Result<ScreenReport> screen_update(const std::filesystem::path& update,
                                                 const tensor::Manifest& model,
                                                 const ScreenLimits& limits);

}  // namespace fedqueue
