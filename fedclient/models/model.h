// A model that LibTorch runs: one of the built-in architectures, or the user's TorchScript file.
// Parameters are named as PyTorch names them (conv1.weight, …); a tensor that has two names (tied
// weights) has the first.
//
// Internal to the trainer: it includes LibTorch. Its exceptions pass through. Not thread-safe.
#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "fedclient/models/network_spec.h"

namespace fedqueue {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

class Model {
 public:
  virtual ~Model() = default;

  // Takes [n, input…]; returns scores [n, classes], of a language model [n, tokens, classes].
  virtual torch::Tensor forward(const torch::Tensor& inputs) = 0;
  // Those that are trained, each once.
  [[nodiscard]] virtual NamedTensors parameters() const = 0;
  // Everything else that belongs to the model's state.
  [[nodiscard]] virtual NamedTensors buffers() const = 0;
  virtual void train(bool on) = 0;
  virtual void to(torch::Device device) = 0;
};

// REQUIRES: check_spec() accepted the specification, which is not of a TorchScript file. The
// parameters are drawn from LibTorch's generator; seed it before.
std::unique_ptr<Model> build_model(const NetworkSpec& spec);

// Fails as describe_script() does, and with Code::model_mismatch when it is not the run's file.
Result<std::unique_ptr<Model>> load_script(const std::filesystem::path& file,
                                           const NetworkSpec& spec);

// --- for the files of this folder
// -----------------------------------------------------------------

struct Architecture : torch::nn::Module {
  virtual torch::Tensor forward(torch::Tensor inputs) = 0;
};

std::shared_ptr<Architecture> make_resnet(const NetworkSpec& spec);
std::shared_ptr<Architecture> make_gpt(const NetworkSpec& spec);

}  // namespace fedqueue
