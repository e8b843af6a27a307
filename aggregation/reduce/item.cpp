#include "aggregation/reduce/item.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "aggregation/reduce/integer_rules.h"
#include "aggregation/reduce/variance.h"

namespace fedqueue {
namespace {

constexpr std::align_val_t alignment{64};

}  // namespace

Buffer::Buffer(std::size_t bytes)
    : bytes_(bytes),
      memory_(static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), alignment))) {
}

void Buffer::Release::operator()(std::byte* memory) const { ::operator delete(memory, alignment); }

Error not_finite_sum(const tensor::TensorInfo& tensor, std::uint64_t i) {
  return {Code::not_finite,
          "reduce: the sum of tensor '" + tensor.name + "' is NaN or infinite at element " +
              std::to_string(i),
          "Look for a facility whose training diverges; a norm cap keeps such updates out."};
}

ItemWorker::ItemWorker(const Reduction& reduction)
    : reduction_(reduction), accumulators_(reduction.plan.accumulator_bytes_max) {
  for (std::size_t i = 0; i < 2 * terms_max; ++i) {
    buffers_.emplace_back(reduction.plan.item_bytes_max);  // costs nothing until it is touched
  }
}

Result<double> ItemWorker::process(const Item& item, std::span<std::byte> out) {
  const Segment& segment = reduction_.plan.segments[item.first_segment];
  if (reduction_.plan.tensors[segment.tensor].rule == MergeRule::pooled_variance &&
      !reduction_.updates.empty()) {
    return pool_variances(reduction_, segment, out);
  }
  clear(item);
  for (std::size_t first = 0; first < reduction_.updates.size(); first += terms_max) {
    const std::size_t count = std::min(terms_max, reduction_.updates.size() - first);
    if (Status taken = take_in(item, first, count); !taken) return taken.error();
  }
  return finish_item(item, out);
}

void ItemWorker::clear(const Item& item) {
  for (const Segment& segment : reduction_.plan.segments_of(item)) {
    if (reduction_.plan.tensors[segment.tensor].rule != MergeRule::float_sum) continue;
    const std::size_t width = reduction_.model.tensors[segment.tensor].dtype == tensor::DType::f64
                                  ? sizeof(double)
                                  : sizeof(float);
    std::memset(accumulators_.data() + segment.accumulator_offset, 0, segment.elements * width);
  }
}

Status ItemWorker::read_item(std::size_t source, const Item& item, std::size_t buffer) {
  return reduction_.sources[source].read_item(reduction_.plan, item, buffers_[buffer].span());
}

Status ItemWorker::take_in(const Item& item, std::size_t first_update, std::size_t count) {
  for (std::size_t t = 0; t < count; ++t) {
    const Reduction::Update& update = reduction_.updates[first_update + t];
    if (Status read = read_item(update.delta, item, 2 * t); !read) return read;
    if (!reduction_.rebuild) continue;
    if (Status read = read_item(update.base, item, 2 * t + 1); !read) return read;
  }
  for (const Segment& segment : reduction_.plan.segments_of(item)) {
    const TensorPlan& plan = reduction_.plan.tensors[segment.tensor];
    const tensor::DType dtype = reduction_.model.tensors[segment.tensor].dtype;
    std::byte* const accumulator = accumulators_.data() + segment.accumulator_offset;
    Term terms[terms_max];
    for (std::size_t t = 0; t < count; ++t) {
      const Reduction::Update& update = reduction_.updates[first_update + t];
      terms[t].delta = buffers_[2 * t].data() + segment.item_offset;
      if (reduction_.rebuild) terms[t].base = buffers_[2 * t + 1].data() + segment.item_offset;
      terms[t].weight = reduction_.weight(update, plan);
    }
    if (is_float(dtype)) {
      accumulate(dtype, std::span(terms, count), accumulator, segment.elements);
      continue;
    }
    for (std::size_t t = 0; t < count; ++t) {
      accumulate_integers(plan.rule, dtype, terms[t].delta, terms[t].weight, first_update + t == 0,
                          accumulator, segment.elements);
    }
  }
  return {};
}

Result<double> ItemWorker::finish_item(const Item& item, std::span<std::byte> out) {
  constexpr std::size_t current = 0;  // the index of its buffer, and of its source
  if (Status read = read_item(current, item, current); !read) return read.error();
  double squares = 0;
  for (const Segment& segment : reduction_.plan.segments_of(item)) {
    const TensorPlan& plan = reduction_.plan.tensors[segment.tensor];
    const tensor::TensorInfo& tensor = reduction_.model.tensors[segment.tensor];
    const std::byte* const accumulator = accumulators_.data() + segment.accumulator_offset;
    const std::byte* const before = buffers_[current].data() + segment.item_offset;
    std::byte* const after = out.data() + segment.item_offset;
    if (is_float(tensor.dtype)) {
      double step =
          finish(tensor.dtype, accumulator, before, !reduction_.rebuild, after, segment.elements);
      if (!std::isfinite(step)) {
        if (const auto i = first_not_finite(tensor.dtype, after, segment.elements)) {
          return not_finite_sum(tensor, segment.first + *i);
        }
        step = std::numeric_limits<double>::max();  // finite, but too long a step to be squared
      }
      squares += step;
    } else if (reduction_.updates.empty()) {
      std::memcpy(after, before, segment.elements * size_of(tensor.dtype));
    } else {
      const double total = plan.equal_weights ? 1.0 : reduction_.total_weight;
      finish_integers(plan.rule, tensor.dtype, accumulator, before, total,
                      reduction_.updates.size(), after, segment.elements);
    }
  }
  return squares;
}

}  // namespace fedqueue
