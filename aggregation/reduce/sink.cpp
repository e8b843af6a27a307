#include "aggregation/reduce/sink.h"

namespace fedqueue {

OrderedSink::OrderedSink(std::size_t item_count, std::size_t slot_count, std::size_t slot_bytes,
                         Digest digest)
    : item_count_(item_count), digest_(std::move(digest)) {
  slots_.reserve(slot_count);
  for (std::size_t i = 0; i < slot_count; ++i) slots_.push_back(Slot{.buffer = Buffer(slot_bytes)});
}

std::optional<std::size_t> OrderedSink::claim() {
  std::unique_lock lock(mutex_);
  if (error_ || claimed_ == item_count_) return std::nullopt;
  const std::size_t index = claimed_++;
  // All items before this one are claimed too, so that somebody will free the slot.
  freed_.wait(lock, [&] { return index < digested_ + slots_.size(); });
  return index;
}

std::span<std::byte> OrderedSink::slot(std::size_t index) const {
  return slots_[index % slots_.size()].buffer.span();
}

void OrderedSink::deliver(std::size_t index, std::size_t bytes, double squares) {
  std::unique_lock lock(mutex_);
  Slot& slot = slot_of(index);
  slot.bytes = bytes;
  slot.squares = squares;
  slot.failed = false;
  hand_in(index, lock);
}

void OrderedSink::fail(std::size_t index, Error error) {
  std::unique_lock lock(mutex_);
  // Items before this one are all claimed and will still be heard of: the error that is kept is
  // the same however the threads ran.
  if (!error_ || index < error_index_) {
    error_ = std::move(error);
    error_index_ = index;
  }
  slot_of(index).failed = true;
  hand_in(index, lock);
}

void OrderedSink::hand_in(std::size_t index, std::unique_lock<std::mutex>& lock) {
  slot_of(index).ready = true;
  if (digesting_) return;
  digesting_ = true;
  for (Slot* slot = &slot_of(digested_); slot->ready; slot = &slot_of(digested_)) {
    if (!error_ && !slot->failed) {
      const std::size_t current = digested_;
      lock.unlock();
      digest_(current, std::span<const std::byte>(slot->buffer.data(), slot->bytes));
      lock.lock();
      squares_ += slot->squares;
    }
    slot->ready = false;
    ++digested_;
    freed_.notify_all();
  }
  digesting_ = false;
}

}  // namespace fedqueue
