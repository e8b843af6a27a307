// The weighted sum that makes a new model out of counted updates.
//
//   deltas:   new = current + Σ_k a_k Δ_k
//   rebuild:  new = Σ_k a_k (base_k + Δ_k)        (FedQueue as published averages whole models)
//
// Files are read, summed and written in chunks by several threads: memory does not grow with the
// model, nor with the number of updates. Every element is summed in the order of the request, so
// the result is the same bits whatever the number of threads and the order of arrival. f32, f16 and
// bf16 are summed in f32, f64 in f64; each element is rounded once, at the end.
//
// An update file holds the deltas of the float tensors, and of the integer and boolean tensors the
// values themselves. Integers: counters (num_batches_tracked) take the maximum of the model and all
// updates; others the weighted mean of the updates, in double, half to even; booleans are true from
// a weighted mean of one half. Running variances named `…running_var` beside a `…running_mean`,
// both listed as buffers, use the pooled formula Σ a(var + mean²) − mean², so that the spread of
// the facilities' means is not lost.
//
// Thread safety: distinct requests may run at the same time.
// Source: McMahan et al. 2017 (FedAvg); the pooled variance is the law of total variance.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

enum class BufferRule {
  weighted,              // as described above
  unweighted_truncated,  // as the reference: float buffers by their plain mean, integers by the
                         // plain mean truncated toward zero
};

struct ReduceUpdate {
  std::filesystem::path update;
  std::filesystem::path base;  // the model the update was trained from; read when rebuilding
  double weight = 0;
};

struct ReduceRequest {
  std::filesystem::path current;
  bool rebuild_models = false;
  std::vector<ReduceUpdate> updates;  // the fixed order of the sum
  BufferRule buffers = BufferRule::weighted;
  std::map<std::string, std::string> metadata;  // set in the result on top of the current model's
  int threads = 0;                              // 0: as many as there are processors
  std::filesystem::path output;                 // written and synced; the caller renames it
};

struct ReduceResult {
  std::string sha256;       // of the output file
  std::uint64_t bytes = 0;  // of the output file
  double step_norm = 0;     // Euclidean length of new − current over all float tensors
};

// Fails with model_mismatch when an update has another structure than the current model, and with
// not_finite, naming the tensor, when a sum is NaN or infinite. Leaves no output file behind then.
[[nodiscard]] Result<ReduceResult> reduce(const ReduceRequest& request);

}  // namespace fedqueue
