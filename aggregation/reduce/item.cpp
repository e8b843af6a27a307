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
constexpr std::size_t current_source = 0;
constexpr std::size_t current_buffer = 0;  // free again once all updates are taken in

// Calls function(double or float) with the type of a tensor's accumulators.
template <typename Function>
auto with_real(tensor::DType dtype, Function&& function) {
  return dtype == tensor::DType::f64 ? function(double{}) : function(float{});
}

template <typename Real, typename Byte>
std::span<Real> reals(Byte* bytes, std::size_t elements) {
  return {reinterpret_cast<Real*>(bytes), elements};
}

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
    : reduction_(reduction),
      accumulators_(reduction.plan.accumulator_bytes_max),
      weights_(reduction.plan.accumulator_bytes_max),
      state_{Buffer(reduction.plan.accumulator_bytes_max),
             Buffer(reduction.plan.accumulator_bytes_max)} {
  for (std::size_t i = 0; i < 2 * terms_max; ++i) {
    buffers_.emplace_back(reduction.plan.item_bytes_max);  // costs nothing until it is touched
  }
}

Result<double> ItemWorker::process(const Item& item, std::span<std::byte> out) {
  const Segment& segment = reduction_.plan.segments[item.first_segment];
  if (reduction_.plan.tensors[segment.tensor].rule == MergeRule::pooled_variance) {
    return pool_variances(reduction_, segment, out);
  }
  if (Status summed = accumulate_updates(item); !summed) return summed.error();
  return finish_item(item, out);
}

Status ItemWorker::measure(const Item& item, std::span<HelocoSums> sums) {
  if (Status summed = accumulate_updates(item); !summed) return summed;
  for (std::size_t i = 0; i < item.segment_count; ++i) {
    const Segment& segment = reduction_.plan.segments[item.first_segment + i];
    if (!reduction_.plan.tensors[segment.tensor].parameter) continue;
    std::byte* const momentum = state_[0].data();
    if (Status read = reduction_.step->read(segment, 0, momentum); !read) return read;
    const std::byte* const delta = accumulators_.data() + segment.accumulator_offset;
    sums[item.first_segment + i] =
        with_real(reduction_.model.tensors[segment.tensor].dtype, [&](auto real) {
          using Real = decltype(real);
          return heloco_sums(reals<const Real>(delta, segment.elements),
                             reals<const Real>(momentum, segment.elements));
        });
  }
  return {};
}

Status ItemWorker::accumulate_updates(const Item& item) {
  clear(item);
  for (std::size_t first = 0; first < reduction_.updates.size(); first += terms_max) {
    const std::size_t count = std::min(terms_max, reduction_.updates.size() - first);
    if (Status taken = take_in(item, first, count); !taken) return taken;
  }
  return {};
}

void ItemWorker::clear(const Item& item) {
  for (const Segment& segment : reduction_.plan.segments_of(item)) {
    if (reduction_.plan.tensors[segment.tensor].rule != MergeRule::float_sum) continue;
    const std::size_t width = accumulator_bytes(reduction_.model.tensors[segment.tensor].dtype);
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
    if (!update.base) continue;
    if (Status read = read_item(*update.base, item, 2 * t + 1); !read) return read;
  }
  for (const Segment& segment : reduction_.plan.segments_of(item)) {
    const TensorPlan& plan = reduction_.plan.tensors[segment.tensor];
    const tensor::DType dtype = reduction_.model.tensors[segment.tensor].dtype;
    std::byte* const accumulator = accumulators_.data() + segment.accumulator_offset;
    Term terms[terms_max];
    for (std::size_t t = 0; t < count; ++t) {
      const Reduction::Update& update = reduction_.updates[first_update + t];
      terms[t].delta = buffers_[2 * t].data() + segment.item_offset;
      if (reduction_.rebuilds(plan) && update.base) {
        terms[t].base = buffers_[2 * t + 1].data() + segment.item_offset;
      }
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
  if (Status read = read_item(current_source, item, current_buffer); !read) return read.error();
  double squares = 0;
  for (const Segment& segment : reduction_.plan.segments_of(item)) {
    if (!is_float(reduction_.model.tensors[segment.tensor].dtype)) {
      finish_integer(segment, out);
      continue;
    }
    const Result<double> part = finish_float(segment, out);
    if (!part) return part;
    if (!reduction_.plan.tensors[segment.tensor].control) squares += *part;
  }
  return squares;
}

Result<double> ItemWorker::finish_float(const Segment& segment, std::span<std::byte> out) {
  const TensorPlan& plan = reduction_.plan.tensors[segment.tensor];
  const tensor::TensorInfo& tensor = reduction_.model.tensors[segment.tensor];
  const std::byte* const before = buffers_[current_buffer].data() + segment.item_offset;
  std::byte* const after = out.data() + segment.item_offset;
  double squares = 0;
  if (plan.parameter && reduction_.step != nullptr) {
    if (Status done = step(segment); !done) return done.error();
    squares = round(tensor.dtype, weights_.data() + segment.accumulator_offset, before, after,
                    segment.elements);
  } else {
    squares = finish(tensor.dtype, accumulators_.data() + segment.accumulator_offset, before,
                     reduction_.keep_of(plan), after, segment.elements);
  }
  if (std::isfinite(squares)) return squares;
  if (const auto i = first_not_finite(tensor.dtype, after, segment.elements)) {
    return not_finite_sum(tensor, segment.first + *i);
  }
  return std::numeric_limits<double>::max();  // finite, but too long a step to be squared
}

// The optimiser's step from the weighted sum, with its state read before and written after.
Status ItemWorker::step(const Segment& segment) {
  StepFiles& files = *reduction_.step;
  const tensor::DType dtype = reduction_.model.tensors[segment.tensor].dtype;
  const std::size_t at = segment.accumulator_offset;
  std::byte* const weights = weights_.data() + at;
  widen(dtype, buffers_[current_buffer].data() + segment.item_offset, weights, segment.elements);
  const std::size_t vectors = files.vectors().size();
  for (std::size_t v = 0; v < vectors; ++v) {
    std::byte* const state = state_[v].data() + at;
    if (files.vectors()[v].begin == StateBegin::model && !files.has_input()) {
      std::memcpy(state, weights, segment.elements * accumulator_bytes(dtype));
    } else if (Status read = files.read(segment, v, state); !read) {
      return read;
    }
  }
  PreparedStep prepared = files.prepared();
  if (!reduction_.corrections.empty()) prepared.correction = reduction_.corrections[segment.tensor];
  with_real(dtype, [&](auto real) {
    using Real = decltype(real);
    const auto range = [&](std::byte* bytes) { return reals<Real>(bytes, segment.elements); };
    apply_step(prepared, {range(weights), range(accumulators_.data() + at),
                          range(state_[0].data() + at), range(state_[1].data() + at)});
    return 0;
  });
  for (std::size_t v = 0; v < vectors; ++v) {
    if (Status placed = files.place(segment, v, state_[v].data() + at); !placed) return placed;
  }
  return {};
}

void ItemWorker::finish_integer(const Segment& segment, std::span<std::byte> out) {
  const TensorPlan& plan = reduction_.plan.tensors[segment.tensor];
  const tensor::DType dtype = reduction_.model.tensors[segment.tensor].dtype;
  std::byte* const accumulator = accumulators_.data() + segment.accumulator_offset;
  const std::byte* const before = buffers_[current_buffer].data() + segment.item_offset;
  std::byte* const after = out.data() + segment.item_offset;
  if (reduction_.updates.empty()) {
    std::memcpy(after, before, segment.elements * size_of(dtype));
    return;
  }
  if (reduction_.rebuild && reduction_.keep_of(plan) > 0) {
    accumulate_integers(plan.rule, dtype, before, reduction_.keep, false, accumulator,
                        segment.elements);
  }
  finish_integers(plan.rule, dtype, accumulator, before, reduction_.total_of(plan),
                  reduction_.updates.size(), after, segment.elements);
}

}  // namespace fedqueue
