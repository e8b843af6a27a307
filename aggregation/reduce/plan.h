// Which rule merges which tensor, and how a model is cut into items of work.
//
// An item is a contiguous range of the data section: part of a large tensor or many small ones. The
// cut depends on the model alone, never on the number of threads.
//
// Thread safety: a Plan is a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "aggregation/reduce/reduce.h"
#include "core/tensor/manifest.h"

namespace fedqueue {

enum class MergeRule : std::uint8_t {
  float_sum,
  pooled_variance,
  integer_maximum,
  integer_mean,
  integer_truncated_mean,
  boolean_mean,
};

// A range of elements of one tensor inside an item.
struct Segment {
  std::size_t tensor = 0;
  std::uint64_t first = 0;  // element
  std::size_t elements = 0;
  std::size_t item_offset = 0;         // bytes from the start of the item
  std::size_t accumulator_offset = 0;  // bytes in the worker's accumulators
};

struct Item {
  std::size_t first_segment = 0;
  std::size_t segment_count = 0;
  std::uint64_t begin = 0;  // in the data section of the current model
  std::size_t bytes = 0;
};

struct TensorPlan {
  MergeRule rule = MergeRule::float_sum;
  bool equal_weights = false;   // 1/K instead of the request's weights
  bool control = false;         // a control variate: summed with the request's control weight
  bool parameter = false;       // what a server optimiser acts on: floats that are no buffers
  std::size_t mean_tensor = 0;  // of a pooled variance
};

struct Plan {
  std::vector<TensorPlan> tensors;  // in the order of the manifest
  std::vector<Segment> segments;
  std::vector<Item> items;
  std::size_t item_bytes_max = 0;
  std::size_t accumulator_bytes_max = 0;

  [[nodiscard]] std::span<const Segment> segments_of(const Item& item) const {
    return std::span(segments).subspan(item.first_segment, item.segment_count);
  }
};

// A pass over four updates and its accumulators stays in the second-level cache.
inline constexpr std::size_t item_bytes_default = 256 * 1024;

[[nodiscard]] Plan make_plan(const tensor::Manifest& model, BufferRule buffers,
                             std::size_t item_bytes = item_bytes_default);

}  // namespace fedqueue
