#include "fedclient/trainer/announcement.h"

#include <cstring>
#include <string>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

template <std::size_t N>
void put(char (&field)[N], const std::string& text) {
  FEDQUEUE_ASSERT(text.size() < N);
  std::memcpy(field, text.data(), text.size());
}

}  // namespace

Announcement announce(const NetworkSpec& spec, const SegmentOrder& order,
                      const TrainingSettings& training) {
  Announcement out;
  out.run = 1;
  out.training = training;
  put(out.model, spec.model);
  put(out.input, spec.input.text());
  put(out.file_sha256, spec.file_sha256);
  out.classes = spec.classes;
  out.layers = spec.layers;
  out.heads = spec.heads;
  out.width = spec.width;
  out.base_version = order.base_version;
  out.local_steps = order.local_steps;
  out.learning_rate = order.learning_rate;
  return out;
}

NetworkSpec spec_of(const Announcement& announcement) {
  const Result<InputShape> input = parse_input_shape(announcement.input);
  FEDQUEUE_ASSERT(input);
  return {announcement.model,       announcement.classes, *input,
          announcement.file_sha256, announcement.layers,  announcement.heads,
          announcement.width};
}

}  // namespace fedqueue
