// The built-in architectures, with the parameter names PyTorch users expect (conv1.weight, …).
// Internal to this folder: the only header here that includes LibTorch.
//
// Not thread-safe.
#pragma once

#include <torch/nn.h>

#include <memory>

#include "fedclient/trainer/network.h"

namespace fedqueue {

// A classifier of grey images: forward() takes [n, 1, rows, columns] and returns [n, classes].
struct Model : torch::nn::Module {
  virtual torch::Tensor forward(torch::Tensor images) = 0;
};

// REQUIRES: check_spec() accepted the specification. The parameters are drawn from LibTorch's
// generator; seed it before.
std::shared_ptr<Model> build_model(const NetworkSpec& spec);

}  // namespace fedqueue
