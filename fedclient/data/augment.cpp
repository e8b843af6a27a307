#include "fedclient/data/augment.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/base/prng.h"

namespace fedqueue {
namespace {

// Where in the padded image the kept part begins, relative to the image itself.
struct Change {
  bool flip = false;
  std::int64_t down = 0;
  std::int64_t right = 0;
};

Change draw(const Augmentation& augmentation, std::uint64_t seed, const BatchPosition& place) {
  // Odd constants keep seeds, epochs and places apart.
  Prng prng(seed ^ (static_cast<std::uint64_t>(place.epoch + 1) * 0xd1342543de82ef95u) ^
            (static_cast<std::uint64_t>(place.offset + 1) * 0xaf251af3b0f025b5u));
  Change change;
  if (augmentation.flip) change.flip = prng.below(2) == 1;
  if (augmentation.crop > 0) {
    const auto positions = static_cast<std::uint64_t>(augmentation.crop) * 2 + 1;
    change.down = static_cast<std::int64_t>(prng.below(positions)) - augmentation.crop;
    change.right = static_cast<std::int64_t>(prng.below(positions)) - augmentation.crop;
  }
  return change;
}

// One channel, from the image to its place in the batch; what lies outside of the image is zero.
template <typename Value>
void change_channel(const Change& change, std::int64_t rows, std::int64_t columns,
                    const Value* image, Value* out) {
  const std::int64_t begin = std::clamp(-change.right, std::int64_t{0}, columns);
  const std::int64_t end = std::clamp(columns - change.right, std::int64_t{0}, columns);
  for (std::int64_t row = 0; row < rows; ++row, out += columns) {
    std::fill_n(out, columns, Value{0});
    const std::int64_t from = row + change.down;
    if (from < 0 || from >= rows || begin >= end) continue;
    std::copy(image + from * columns + begin + change.right,
              image + from * columns + end + change.right, out + begin);
    if (change.flip) std::reverse(out, out + columns);
  }
}

template <typename Value>
void change_images(const Augmentation& augmentation, std::uint64_t seed,
                   std::span<const BatchPosition> places, Batch& batch) {
  const std::int64_t rows = batch.input.sizes[1];
  const std::int64_t columns = batch.input.sizes[2];
  const std::int64_t elements = batch.input.elements();
  std::vector<Value> image(static_cast<std::size_t>(elements));
  auto* values = reinterpret_cast<Value*>(batch.values.data());
  for (const BatchPosition& place : places) {
    const Change change = draw(augmentation, seed, place);
    std::copy_n(values, elements, image.data());
    for (std::int64_t at = 0; at < elements; at += rows * columns)
      change_channel(change, rows, columns, image.data() + at, values + at);
    values += elements;
  }
}

template <typename Value>
void scale(const Value* in, float scale, float shift, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(in[i]) * scale + shift;
}

}  // namespace

Status check_augmentation(const Augmentation& augmentation, const Dataset& dataset) {
  const InputShape& input = dataset.input;
  if (augmentation.of_images() && !input.is_image()) {
    return Error{
        Code::usage,
        "augment the samples: augment_flip and augment_crop are for images, the dataset has " +
            dataset.text(),
        "Leave them out."};
  }
  const std::int32_t channels = augmentation.normalization.channels;
  if (channels == 0) return {};
  if (input.tokens) {
    return Error{Code::usage, "normalise the samples: tokens are no quantities",
                 "Leave normalize out."};
  }
  if (channels == 1 || (input.is_image() && input.sizes.front() == channels)) return {};
  return Error{Code::usage,
               "normalise the samples: there are " + std::to_string(channels) +
                   " means, the dataset has " + dataset.text(),
               "Give one mean and deviation for each channel of an image, or one for all values."};
}

void augment(const Augmentation& augmentation, std::uint64_t seed,
             std::span<const BatchPosition> places, Batch& batch) {
  if (!augmentation.of_images()) return;
  FEDQUEUE_ASSERT(batch.input.is_image() &&
                  static_cast<std::int64_t>(places.size()) == batch.samples);
  if (batch.dtype == tensor::DType::u8) {
    change_images<std::uint8_t>(augmentation, seed, places, batch);
  } else {
    change_images<float>(augmentation, seed, places, batch);
  }
}

void normalize(const Normalization& normalization, Batch& batch) {
  if (normalization.channels == 0) return;
  const bool bytes = batch.dtype == tensor::DType::u8;
  const std::int64_t elements = batch.input.elements();
  const std::int64_t run = elements / normalization.channels;
  std::vector<std::byte> values(static_cast<std::size_t>(batch.samples * elements) * sizeof(float));
  auto* out = reinterpret_cast<float*>(values.data());
  for (std::int64_t at = 0; at < batch.samples * elements; at += run) {
    const auto channel = static_cast<std::size_t>(at / run % normalization.channels);
    const float factor = (bytes ? 1.0f / 255 : 1.0f) / normalization.deviation[channel];
    const float shift = -normalization.mean[channel] / normalization.deviation[channel];
    if (bytes) {
      scale(reinterpret_cast<const std::uint8_t*>(batch.values.data()) + at, factor, shift, run,
            out + at);
    } else {
      scale(reinterpret_cast<const float*>(batch.values.data()) + at, factor, shift, run, out + at);
    }
  }
  batch.values = std::move(values);
  batch.dtype = tensor::DType::f32;
}

}  // namespace fedqueue
