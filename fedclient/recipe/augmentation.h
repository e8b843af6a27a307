// What is done to samples between the dataset and the model: random flips and crops of training
// images, and the normalisation of all inputs, training and evaluation alike.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "core/base/result.h"

namespace fedqueue {

inline constexpr std::size_t kNormalizedChannelsMax = 16;

// x becomes (x − mean)/deviation, where a byte x counts as x/255.
struct Normalization {
  std::int32_t channels = 0;  // 0: none; 1: one pair for all
  std::array<float, kNormalizedChannelsMax> mean{};
  std::array<float, kNormalizedChannelsMax> deviation{};

  friend bool operator==(const Normalization&, const Normalization&) = default;
};

// "0.5/0.25" or "0.49,0.48,0.45/0.25,0.24,0.26": means, then standard deviations, of each channel.
Result<Normalization> parse_normalization(const std::string& text);

struct Augmentation {
  bool flip = false;      // left and right change places in half of the images
  std::int32_t crop = 0;  // pixels of zeros around an image, of which a random part is kept
  Normalization normalization;

  // Anything that is for images alone.
  [[nodiscard]] bool of_images() const { return flip || crop > 0; }
  friend bool operator==(const Augmentation&, const Augmentation&) = default;
};

}  // namespace fedqueue
