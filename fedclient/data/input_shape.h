// What one sample of a dataset is, and what a model takes: a tensor of these sizes, or a stretch of
// tokens. As text "1x28x28" (channels, rows, columns), "16" (a vector), "tokens:128" (128 tokens).
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

struct InputShape {
  std::vector<std::int64_t> sizes = {1, 28, 28};  // of tokens: how many
  bool tokens = false;

  [[nodiscard]] std::int64_t elements() const;
  // Channels, rows and columns.
  [[nodiscard]] bool is_image() const { return !tokens && sizes.size() == 3; }
  [[nodiscard]] std::string text() const;

  friend bool operator==(const InputShape&, const InputShape&) = default;
};

// Code::usage unless it is one to eight sizes from 1, of at most 2^31 elements together.
Result<InputShape> parse_input_shape(const std::string& text);

}  // namespace fedqueue
