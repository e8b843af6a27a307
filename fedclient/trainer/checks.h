// What must hold before a trainer starts.
//
// Thread safety: pure functions.
#pragma once

#include "core/base/result.h"
#include "fedclient/data/dataset.h"
#include "fedclient/recipe/training_settings.h"

namespace fedqueue {

// Code::usage when settings contradict each other, the ranks or the kind of data; Code::data for a
// dataset without samples, or as check_batch().
Status check_start(const TrainingSettings& training, int ranks, const Dataset& dataset);

// Code::data for a dataset with fewer samples than a batch has.
Status check_batch(const TrainingSettings& training, int ranks, const Dataset& dataset);

}  // namespace fedqueue
