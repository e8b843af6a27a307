// The weighted sum that makes a new model out of counted updates.
//
//   deltas:   new = current + Σ_k a_k Δ_k, or what a server optimiser makes of the sum
//   rebuild:  new = keep·current + Σ_k a_k (base_k + Δ_k)   (FedQueue as published, FedAsync)
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
// A server optimiser (aggregation/optimizer) acts on float tensors that are no buffers. Its state
// is a safetensors file too, beside the model: `m/NAME` and, where there are two vectors, `v/NAME`,
// `c/NAME` or `w/NAME`, in f32 (f64 for tensors of f64); metadata `fedqueue.optimizer` and
// `fedqueue.pushes`. HeLoCo needs the length of each tensor's sum first and reads all inputs twice.
//
// Control variates (SCAFFOLD) are f32 tensors named `fedqueue.control.PARAMETER` in the model, and
// their differences in the updates: c ← c + control_weight · Σ_k (c_k' − c_k). Neither the a_k nor
// an optimiser touches them.
//
// Thread safety: distinct requests may run at the same time.
// Source: McMahan et al. 2017 (FedAvg); Karimireddy et al., arXiv 1910.06378 (SCAFFOLD); the pooled
// variance is the law of total variance.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "aggregation/optimizer/server_step.h"
#include "core/base/result.h"

namespace fedqueue {

enum class BufferRule {
  weighted,              // as described above
  unweighted_truncated,  // as the reference: float buffers by their plain mean, integers by the
                         // plain mean truncated toward zero
};

struct ReduceUpdate {
  std::filesystem::path update;
  // The model the update was trained from, read when rebuilding; empty: the update is a whole model
  // itself.
  std::filesystem::path base;
  double weight = 0;
};

struct ReduceRequest {
  std::filesystem::path current;
  bool rebuild_models = false;
  double keep = 0;                    // of the current model, when models are rebuilt
  std::vector<ReduceUpdate> updates;  // the fixed order of the sum
  ServerStep step;                    // when deltas are added
  double control_weight = 0;          // one over the number of all facilities
  BufferRule buffers = BufferRule::weighted;
  std::map<std::string, std::string> metadata;  // set in the result on top of the current model's
  int threads = 0;                              // 0: as many as there are processors
  std::filesystem::path output;                 // written and synced; the caller renames it
  std::filesystem::path state_input;            // of the step before; empty: the state begins
  std::filesystem::path state_output;           // as `output`; not read when the step has no state
};

// The file with an optimiser's state.
struct ReduceState {
  std::string sha256;
  std::uint64_t bytes = 0;
  bool began = false;  // there was no state, or one of another optimiser
};

struct ReduceResult {
  std::string sha256;       // of the output file
  std::uint64_t bytes = 0;  // of the output file
  double step_norm = 0;  // Euclidean length of new − current over all float tensors of the model
  std::optional<ReduceState> state;
};

// Fails with model_mismatch when an update or the state has another structure than the current
// model, and with not_finite, naming the tensor, when a sum is NaN or infinite. Leaves no output
// file behind then. The state of another optimiser than the step's is not read: a new one begins.
[[nodiscard]] Result<ReduceResult> reduce(const ReduceRequest& request);

}  // namespace fedqueue
