// The user's own PyTorch model as a TorchScript file. It never travels: each facility has a copy,
// and the run's metadata hold its SHA-256.
//
// Thread safety: any thread, while no other uses LibTorch's number of threads.
#pragma once

#include <filesystem>

#include "core/base/result.h"
#include "fedclient/models/network_spec.h"

namespace fedqueue {

// The specification, classes included, from what the model makes of two samples of zeros.
// Code::model_format for a file that is no TorchScript, has no parameters, or others than f32, or
// does not take such samples.
Result<NetworkSpec> describe_script(const std::filesystem::path& file, const InputShape& input);

}  // namespace fedqueue
