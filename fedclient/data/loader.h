// Gathers and augments the batches of the steps to come, on threads of its own, while the present
// one is computed.
//
// Promises: batches come in the order of the sampler and with the same bits, whatever the number of
// threads; at most `batches_ahead()` wait to be taken; position() is the place behind the batch
// that was taken last, not behind those that were prepared. A loader whose settings change is
// replaced by another that begins at its position.
//
//   workers:  (draw a ticket → gather → check → augment → put in its slot)*
//   next():   take the slot of the next ticket
//
// The destructor waits for the samples that a worker is at, never for room or for a reader.
//
// Thread safety: next() and the rest from one thread. The dataset must outlive the loader.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/result.h"
#include "fedclient/data/dataset.h"
#include "fedclient/data/sampler.h"
#include "fedclient/recipe/augmentation.h"

namespace fedqueue {

struct LoaderOptions {
  int rank = 0;
  int ranks = 1;
  int threads = 1;         // 0: next() does the work itself
  std::uint64_t seed = 1;  // of the augmentation
  Augmentation augmentation;
};

class BatchLoader {
 public:
  // REQUIRES: a sampler of this dataset; check_augmentation().
  BatchLoader(const Dataset& dataset, BatchSampler sampler, const LoaderOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // This rank's part of the next global batch. Code::data when a sample cannot be trained on.
  Result<Batch> next();

  // Those of all ranks' parts of the batch that was taken last, in order.
  [[nodiscard]] const std::vector<std::int64_t>& samples() const { return samples_; }
  [[nodiscard]] BatchPosition position() const { return position_; }
  // Seconds that next() took, all calls together.
  [[nodiscard]] double wait_seconds() const { return wait_seconds_; }
  [[nodiscard]] int batches_ahead() const { return static_cast<int>(slots_.size()); }

 private:
  // What a worker has to do: the samples of one batch.
  struct Ticket {
    std::int64_t number = 0;
    std::vector<std::int64_t> samples;  // of all ranks
    std::vector<std::int64_t> indices;  // this rank's
    std::vector<BatchPosition> places;
    BatchPosition after;
  };
  struct Slot {
    std::optional<Result<Batch>> batch;
    std::vector<std::int64_t> samples;
    BatchPosition after;
  };

  Ticket draw();
  [[nodiscard]] Result<Batch> prepare(const Ticket& ticket) const;
  std::optional<Ticket> draw_when_room();
  void work();

  const Dataset& dataset_;
  const LoaderOptions options_;
  BatchPosition position_;
  std::vector<std::int64_t> samples_;
  double wait_seconds_ = 0;

  std::mutex draw_mutex_;  // one ticket at a time
  BatchSampler sampler_;
  std::int64_t drawn_ = 0;

  std::mutex mutex_;  // of what follows; taken after draw_mutex_
  std::condition_variable room_;
  std::condition_variable ready_;
  std::vector<Slot> slots_;
  std::int64_t taken_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace fedqueue
