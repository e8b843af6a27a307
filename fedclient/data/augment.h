// Applies an Augmentation to a batch.
//
// What happens to an image follows from the seed, the epoch and its place in the epoch's order
// alone, so that the number of ranks, of threads or of samples in a batch does not matter, and a
// sample that comes several times in an epoch is not always cut in the same way.
// Source of flips and crops: He et al., "Deep Residual Learning for Image Recognition" (2016),
// section 4.2.
//
// Thread safety: pure functions on distinct batches.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/result.h"
#include "fedclient/data/dataset.h"
#include "fedclient/data/sampler.h"
#include "fedclient/recipe/augmentation.h"

namespace fedqueue {

// Code::usage when this cannot be done to samples of such a dataset.
Status check_augmentation(const Augmentation& augmentation, const Dataset& dataset);

// Flips and crops. `places` are those of the samples in the stream of samples.
// REQUIRES: check_augmentation(); also below.
void augment(const Augmentation& augmentation, std::uint64_t seed,
             std::span<const BatchPosition> places, Batch& batch);

// The batch as f32, if there is a normalisation.
void normalize(const Normalization& normalization, Batch& batch);

}  // namespace fedqueue
