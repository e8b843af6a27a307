// How integer and boolean tensors are merged; they are rare and small, so the loops are plain.
//
// Accumulators: 8 bytes per element for the maximum and for booleans, 16 for the means.
//
// Thread safety: pure functions.
#pragma once

#include <cstddef>

#include "aggregation/reduce/plan.h"
#include "core/tensor/dtype.h"

namespace fedqueue {

// Takes in one update's values. `first` says that it is the first, whatever the accumulators hold.
void accumulate_integers(MergeRule rule, tensor::DType dtype, const std::byte* values,
                         double weight, bool first, std::byte* accumulator, std::size_t elements);

// Writes the result. REQUIRES: at least one update was taken in. `total_weight` is the sum of the
// weights and `count` the number of updates; without a positive total weight a mean is undefined
// and the current value stays.
void finish_integers(MergeRule rule, tensor::DType dtype, const std::byte* accumulator,
                     const std::byte* current, double total_weight, std::size_t count,
                     std::byte* out, std::size_t elements);

}  // namespace fedqueue
