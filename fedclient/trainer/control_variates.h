// A facility's control variates (SCAFFOLD): what they are, where they are kept, how they change.
//
// Each step takes the gradient g + (c − c_k): c the server's, in the model file the segment starts
// from; c_k the facility's own. After a segment of plain SGD from x to y
//
//   c_k' = c_k − c + (x − y)/Σ lr,    the update carries c_k' − c_k
//
// which is option II with the sum of the learning rates in place of E·η. The difference does not
// depend on c_k, so that
//
//   c_k = Σ (differences of all updates that the server took)
//
// and that is how it is kept: an update that the server took moves to DIRECTORY/pending, whoever
// sent it and whenever; the next job adds what is pending to DIRECTORY/own.safetensors. A kill
// anywhere loses or doubles nothing, and an update that was refused leaves c_k as it is. With a
// buffered update that is dropped later the facility is ahead of the server by that difference.
//
// Momentum makes (x − y)/Σ lr a multiple of the mean gradient; the trainer refuses it.
//
// Thread safety: none, but for several processes that share a directory (flock).
// Source: Karimireddy et al., "SCAFFOLD", arXiv 1910.06378, option II.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/tensor/control.h"
#include "core/tensor/control_values.h"

namespace fedqueue {

// The facility's c_k, in the order of `layout` (controls_of() a model); zeros before its first
// update. Takes in what is pending. Code::model_mismatch if they are of another model.
Result<std::vector<float>> load_own_controls(const std::filesystem::path& directory,
                                             const tensor::Manifest& layout);

// The control variates of one segment.
class ControlVariates {
 public:
  // From a model file, for the parameters of `network`; an empty directory stands for c_k = 0.
  // REQUIRES: has_controls() of the file.
  static Result<ControlVariates> load(const tensor::Reader& model, const tensor::Manifest& network,
                                      const std::filesystem::path& own_directory);

  // c − c_k, in the order of controls_of(network).
  [[nodiscard]] const std::vector<float>& correction() const { return correction_; }

  // The update `delta`, laid out by `network`, with the differences of the control variates.
  [[nodiscard]] Result<tensor::ControlledUpdate> attach(const tensor::Manifest& network,
                                                        std::span<const std::byte> delta,
                                                        double learning_rate_sum) const;

 private:
  tensor::Manifest layout_;
  std::vector<float> server_;  // c
  std::vector<float> correction_;
};

}  // namespace fedqueue
