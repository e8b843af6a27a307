// The work on one item: read its range of every file, merge, write the result into a buffer.
//
// Thread safety: Reduction is read-only while workers run; each worker belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "aggregation/optimizer/kernels.h"
#include "aggregation/reduce/float_kernels.h"
#include "aggregation/reduce/plan.h"
#include "aggregation/reduce/source.h"
#include "aggregation/reduce/step_files.h"
#include "core/base/result.h"

namespace fedqueue {

// Everything the workers share.
struct Reduction {
  struct Update {
    std::size_t delta = 0;            // index into sources
    std::optional<std::size_t> base;  // likewise, when rebuilding; nothing: `delta` is a model
    double weight = 0;
  };

  tensor::Manifest model;
  Plan plan;
  std::vector<Source> sources;  // the first is the current model
  std::vector<Update> updates;
  bool rebuild = false;
  double keep = 0;  // weight of the current model, when rebuilding
  double total_weight = 0;
  double control_weight = 0;
  StepFiles* step = nullptr;                  // nullptr: the weighted sum is the step
  std::vector<HelocoCorrection> corrections;  // of every tensor; empty: none

  [[nodiscard]] const Source& current() const { return sources.front(); }
  // The weight of an update for a tensor with this plan.
  [[nodiscard]] double weight(const Update& update, const TensorPlan& tensor) const {
    if (tensor.control) return control_weight;
    return tensor.equal_weights ? 1.0 / static_cast<double>(updates.size()) : update.weight;
  }
  // Whether such a tensor is put together from whole models; control variates never are.
  [[nodiscard]] bool rebuilds(const TensorPlan& tensor) const { return rebuild && !tensor.control; }
  // How much of the current model goes into the result.
  [[nodiscard]] double keep_of(const TensorPlan& tensor) const {
    if (!rebuilds(tensor)) return 1;
    return tensor.equal_weights ? 0 : keep;
  }
  // The weights of all that is averaged.
  [[nodiscard]] double total_of(const TensorPlan& tensor) const {
    if (tensor.equal_weights) return 1;
    return rebuild ? total_weight + keep : total_weight;
  }
};

// Memory that is not cleared and is aligned for vectors.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::span<std::byte> span() const { return {memory_.get(), bytes_}; }

 private:
  struct Release {
    void operator()(std::byte* memory) const;
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Release> memory_;
};

class ItemWorker {
 public:
  explicit ItemWorker(const Reduction& reduction);

  // Writes item.bytes bytes of the new model to `out`, and what belongs to it of the server
  // optimiser's state. Returns Σ (new − current)² over its floats but the control variates.
  Result<double> process(const Item& item, std::span<std::byte> out);

  // HeLoCo's sums over the segments of the item, to their places in `sums`.
  Status measure(const Item& item, std::span<HelocoSums> sums);

 private:
  Status accumulate_updates(const Item& item);
  Result<double> finish_float(const Segment& segment, std::span<std::byte> out);
  Status step(const Segment& segment);
  void finish_integer(const Segment& segment, std::span<std::byte> out);
  Status read_item(std::size_t source, const Item& item, std::size_t buffer);
  Status take_in(const Item& item, std::size_t first_update, std::size_t count);
  Result<double> finish_item(const Item& item, std::span<std::byte> out);
  void clear(const Item& item);

  const Reduction& reduction_;
  Buffer accumulators_;
  Buffer weights_;  // of the model while the optimiser acts, placed as the accumulators
  std::array<Buffer, 2> state_;
  std::vector<Buffer> buffers_;  // a delta and a base for every term of a pass
};

// The error for element `i` of a tensor that came out as NaN or infinite.
[[nodiscard]] Error not_finite_sum(const tensor::TensorInfo& tensor, std::uint64_t i);

}  // namespace fedqueue
