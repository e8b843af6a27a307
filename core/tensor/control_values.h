// The values of control variates in memory: SCAFFOLD's arithmetic on the data sections of models
// and updates, for whoever trains.
//
// A segment of plain SGD from x to y, with the server's c in its base, leaves
//
//   c_k' = c_k − c + (x − y)/Σ lr,    the update carries c_k' − c_k
//
// which is option II with the sum of the learning rates in place of E·η. The difference does not
// depend on c_k.
//
// Thread safety: pure functions.
// Source: Karimireddy et al., "SCAFFOLD", arXiv 1910.06378, option II.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/tensor/manifest.h"

namespace fedqueue::tensor {

// c_k' − c_k of one element, from delta = y − x. 0 if nothing was learned.
[[nodiscard]] float control_difference(float delta, float server, double learning_rate_sum);

// The data of a file laid out by `from`, laid out by `to`: tensors of one name are copied, those
// that `from` lacks are zero. REQUIRES: data.size() == from.data_bytes; tensors of one name have
// the same type and shape.
[[nodiscard]] std::vector<std::byte> rearranged_data(const Manifest& from,
                                                     std::span<const std::byte> data,
                                                     const Manifest& to);

struct ControlledUpdate {
  Manifest layout;  // with_controls() of the model
  std::vector<std::byte> data;
};

// The update `delta` of a model without control variates, together with their differences.
// `server` is c in the order of controls_of(model). REQUIRES: delta.size() == model.data_bytes; the
// parameters are f32.
[[nodiscard]] Result<ControlledUpdate> attach_controls(const Manifest& model,
                                                       std::span<const std::byte> delta,
                                                       std::span<const float> server,
                                                       double learning_rate_sum);

}  // namespace fedqueue::tensor
