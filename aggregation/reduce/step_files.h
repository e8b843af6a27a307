// The server optimiser's state during a reduction: the file of the step before, and the one that is
// being written.
//
// Every vector of the state lies in the file as the tensors of the model do, so that a segment of
// work reads and writes one range of each. The checksum needs the bytes in their order in the file,
// which is not the order of the work when there are two vectors: it is taken at the end from the
// page cache.
//
// Thread safety: const functions and place() may be called from many threads, place() with distinct
// segments; everything else from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "aggregation/optimizer/kernels.h"
#include "aggregation/reduce/plan.h"
#include "aggregation/reduce/reduce.h"
#include "core/tensor/file.h"

namespace fedqueue {

inline constexpr const char* optimizer_key = "fedqueue.optimizer";
inline constexpr const char* pushes_key = "fedqueue.pushes";

class StepFiles {
 public:
  // Opens the input, if there is one of this optimiser, and creates the output, if there is state.
  static Result<StepFiles> open(const ReduceRequest& request, const tensor::Manifest& model,
                                const Plan& plan);

  [[nodiscard]] std::span<const StateVector> vectors() const {
    return state_vectors(prepared_.step.optimizer);
  }
  [[nodiscard]] bool has_input() const { return input_.has_value(); }
  // Without the correction, which each tensor has of its own.
  [[nodiscard]] const PreparedStep& prepared() const { return prepared_; }

  // A segment of one vector, in the type of the accumulators. Without an input: what the vector
  // begins with. REQUIRES: then, that it does not begin as the model.
  [[nodiscard]] Status read(const Segment& segment, std::size_t vector, std::byte* out) const;
  [[nodiscard]] Status place(const Segment& segment, std::size_t vector,
                             const std::byte* values) const;

  // After all segments are placed: checksum and sync. Nothing when there is no state.
  Result<std::optional<ReduceState>> finish();

 private:
  StepFiles() = default;
  Status open_input(const std::filesystem::path& path, const tensor::Manifest& layout);
  [[nodiscard]] std::size_t width(const Segment& segment) const {
    return size_of(layout_.tensors[places_[0][segment.tensor]].dtype);
  }

  PreparedStep prepared_;
  std::int64_t pushes_ = 0;  // before this one
  std::filesystem::path output_path_;
  tensor::Manifest layout_;
  // For each vector and tensor of the model: the tensor of the layout, and its place in the input.
  std::vector<std::vector<std::size_t>> places_;
  std::vector<std::vector<std::uint64_t>> input_places_;
  std::optional<tensor::Reader> input_;
  std::optional<tensor::Writer> output_;
};

}  // namespace fedqueue
