#include "core/tensor/control_values.h"

#include <cstring>
#include <string>
#include <utility>

#include "core/base/assert.h"
#include "core/tensor/control.h"

namespace fedqueue::tensor {

float control_difference(float delta, float server, double learning_rate_sum) {
  if (!(learning_rate_sum > 0)) return 0;
  return static_cast<float>(-static_cast<double>(delta) / learning_rate_sum - server);
}

std::vector<std::byte> rearranged_data(const Manifest& from, std::span<const std::byte> data,
                                       const Manifest& to) {
  FEDQUEUE_ASSERT(data.size() == from.data_bytes);
  std::vector<std::byte> result(to.data_bytes);
  const auto places = from.index();
  for (const TensorInfo& info : to.tensors) {
    const auto found = places.find(info.name);
    if (found == places.end()) continue;
    const TensorInfo& source = from.tensors[found->second];
    FEDQUEUE_ASSERT(source.bytes() == info.bytes());
    std::memcpy(result.data() + info.begin, data.data() + source.begin, info.bytes());
  }
  return result;
}

Result<ControlledUpdate> attach_controls(const Manifest& model, std::span<const std::byte> delta,
                                         std::span<const float> server, double learning_rate_sum) {
  Result<Manifest> with = with_controls(model);
  if (!with) return with.error();
  const Result<Manifest> controls = controls_of(model);
  if (!controls) return controls.error();
  FEDQUEUE_ASSERT(server.size() * sizeof(float) == controls->data_bytes);
  ControlledUpdate update{std::move(*with), {}};
  update.data = rearranged_data(model, delta, update.layout);
  const auto places = model.index();
  const auto server_places = controls->index();
  for (const TensorInfo& info : update.layout.tensors) {
    if (!is_control(info)) continue;
    const std::string parameter = info.name.substr(control_prefix.size());
    const std::byte* const in = delta.data() + model.tensors[places.at(parameter)].begin;
    std::byte* const out = update.data.data() + info.begin;
    const float* const c =
        server.data() + controls->tensors[server_places.at(info.name)].begin / sizeof(float);
    for (std::size_t i = 0; i < info.elements(); ++i) {
      float change = 0;
      std::memcpy(&change, in + i * sizeof change, sizeof change);
      change = control_difference(change, c[i], learning_rate_sum);
      std::memcpy(out + i * sizeof change, &change, sizeof change);
    }
  }
  return update;
}

}  // namespace fedqueue::tensor
