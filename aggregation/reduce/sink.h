// Brings finished items back into their order for the checksum, while others are still computed.
//
// Workers claim items in order, compute each in a slot of a ring, write it to the file themselves
// and hand it in. Whoever hands in the item that is next in order digests it and all that follow,
// so that hashing never waits for a thread of its own and never holds up more than one worker.
//
// Thread safety: claim, slot, deliver and fail may be called from any number of threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "aggregation/reduce/item.h"
#include "core/base/error.h"

namespace fedqueue {

class OrderedSink {
 public:
  // `digest(index, bytes)` is called for every item in order, by one thread at a time.
  using Digest = std::function<void(std::size_t index, std::span<const std::byte> bytes)>;

  OrderedSink(std::size_t item_count, std::size_t slot_count, std::size_t slot_bytes,
              Digest digest);

  // The next item to compute, once its slot is free; nothing when all are claimed or one failed.
  [[nodiscard]] std::optional<std::size_t> claim();
  [[nodiscard]] std::span<std::byte> slot(std::size_t index) const;

  // The item is in its slot; `squares` is its part of the squared step.
  void deliver(std::size_t index, std::size_t bytes, double squares);
  // The item cannot be computed. Items after it are not started any more.
  void fail(std::size_t index, Error error);

  // After all workers are done: the error of the first item that failed.
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }
  // The squared step, summed in the order of the items.
  [[nodiscard]] double squares() const { return squares_; }

 private:
  struct Slot {
    Buffer buffer;
    std::size_t bytes = 0;
    double squares = 0;
    bool ready = false;
    bool failed = false;
  };

  Slot& slot_of(std::size_t index) { return slots_[index % slots_.size()]; }
  void hand_in(std::size_t index, std::unique_lock<std::mutex>& lock);

  const std::size_t item_count_;
  const Digest digest_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::vector<Slot> slots_;
  std::size_t claimed_ = 0;
  std::size_t digested_ = 0;
  bool digesting_ = false;
  double squares_ = 0;
  std::optional<Error> error_;
  std::size_t error_index_ = 0;
};

}  // namespace fedqueue
