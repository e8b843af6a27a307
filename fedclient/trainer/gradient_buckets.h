// Tells which parts of the flat gradient are complete while the backward pass goes on.
//
// The buffer is cut into buckets of whole parameters from its end, since what is used last gets its
// gradient first. A bucket is handed out when the gradients of all its parameters have been
// accumulated, and only after those before it, so that the order is the same on every rank,
// whatever order autograd takes. The last one, with the buffer's head, is handed out by finish(),
// as are those of parameters that got no gradient. Source: Li et al., "PyTorch Distributed:
// Experiences on Accelerating Data Parallel Training" (2020), section 3.2 (gradient bucketing).
//
// Knows no model, but a list of parameters. Thread safety: none; the backward pass calls from one
// thread at a time.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/result.h"

namespace torch::autograd {
struct Node;
}

namespace fedqueue {

class GradientBuckets {
 public:
  // Elements [begin, begin + count) of the buffer are complete.
  using Complete = std::function<Status(std::int64_t begin, std::int64_t count)>;

  // The gradients of `parameters` follow each other behind `head` other elements of the buffer. A
  // bucket ends with the parameter that fills `bucket_elements`.
  GradientBuckets(const std::vector<torch::Tensor>& parameters, std::int64_t head,
                  std::int64_t bucket_elements);
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  [[nodiscard]] std::size_t buckets() const { return buckets_.size(); }

  // The next backward pass completes gradients.
  void start(Complete complete);
  // All are complete. The first error of a call.
  Status finish();

 private:
  struct Bucket {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    int parameters = 0;  // that can have gradients
    int missing = 0;
  };
  class Hook;
  void accumulated(std::size_t bucket);
  void hand_out();

  std::vector<Bucket> buckets_;
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;  // their hooks end with them
  Complete complete_;
  std::size_t next_ = 0;
  Status status_;
};

}  // namespace fedqueue
