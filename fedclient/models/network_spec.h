// Which model a run trains, for which data. Stored in a model file's metadata, so that every
// facility builds the same one.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "fedclient/data/dataset.h"
#include "fedclient/data/input_shape.h"

namespace fedqueue {

// The user's own model, as a TorchScript file that lies at every facility.
inline constexpr const char* kTorchScript = "torchscript";

struct NetworkSpec {
  std::string model;             // one of model_names(), or kTorchScript
  std::int64_t classes = 10;     // labels; of a language model the vocabulary
  InputShape input = {};         // of one sample
  std::string file_sha256 = {};  // of the TorchScript file
  // Of gpt alone.
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;

  friend bool operator==(const NetworkSpec&, const NetworkSpec&) = default;
};

// The built-in ones.
[[nodiscard]] const std::vector<std::string>& model_names();
// Code::usage for an unknown model or a size it cannot take.
Status check_spec(const NetworkSpec& spec);
// Code::data, naming both, when the model does not take these samples.
Status check_fit(const std::string& attempted, const NetworkSpec& spec, const Dataset& dataset);

// The metadata `fedqueue.model`, `.classes`, `.input` ("1x28x28"), for a TorchScript file
// `.sha256`, for gpt `.layers`, `.heads`, `.width`; and back.
[[nodiscard]] std::map<std::string, std::string> to_metadata(const NetworkSpec& spec);
Result<NetworkSpec> spec_from_metadata(const std::map<std::string, std::string>& metadata);

}  // namespace fedqueue
