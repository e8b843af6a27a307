#include "fedclient/collective/sum_queue.h"

#include <utility>

namespace fedqueue {
namespace {

double seconds_of(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

SumQueue::SumQueue(Sum sum) : sum_(std::move(sum)), thread_([this] { run(); }) {}

SumQueue::~SumQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  awaited_ = true;
  changed_.notify_all();
  thread_.join();
}

void SumQueue::begin(float* data, std::size_t count) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  if (ranges_.empty()) busy_since_ = Clock::now();
  ranges_.push_back({data, count});
  changed_.notify_all();
}

Status SumQueue::finish() {
  std::unique_lock lock(mutex_);
  if (!ranges_.empty()) {
    const Clock::time_point waiting_since = Clock::now();
    awaited_ = true;
    changed_.wait(lock, [this] { return ranges_.empty(); });
    awaited_ = false;
    seconds_.exposed += seconds_of(Clock::now() - waiting_since);
  }
  if (failed_) return *failed_;
  return {};
}

SumSeconds SumQueue::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

void SumQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !ranges_.empty(); });
    if (ending_) return;
    const Range range = ranges_.front();
    lock.unlock();
    const Status status = sum_(range.data, range.count, awaited_);
    lock.lock();
    if (status) {
      ranges_.pop_front();
    } else {
      failed_ = status.error();
      ranges_.clear();
    }
    if (!ranges_.empty()) continue;
    seconds_.under_way += seconds_of(Clock::now() - busy_since_);
    changed_.notify_all();
  }
}

}  // namespace fedqueue
