// The plain mean of several models of one run (LAWA: the latest of them), for evaluation and
// serving.
//
// Floats are averaged in f32 (f64 in f64) and rounded once; counters take the maximum, other
// integers the mean, half to even, booleans the majority, and running variances the pooled
// variance, all as in reduce.h. Nothing is changed in place and nothing is divided twice: the
// models are files, and the mean is another. Control variates are the newest model's.
//
// Thread safety: distinct outputs may be made at the same time.
// Source: Kaddour, "Stop Wasting My Time!", arXiv 2209.14981 (LAWA).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "aggregation/reduce/reduce.h"

namespace fedqueue {

// Oldest first; metadata is the newest model's with `metadata` on top. REQUIRES: one model at
// least.
[[nodiscard]] Result<ReduceResult> average_models(
    const std::vector<std::filesystem::path>& models,
    const std::map<std::string, std::string>& metadata, const std::filesystem::path& output);

}  // namespace fedqueue
