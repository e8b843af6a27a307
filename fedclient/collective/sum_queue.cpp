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
    while (!ranges_.empty()) {
      if (at_work_) {
        changed_.wait(lock, [this] { return !at_work_; });
      } else {
        work(lock);
      }
    }
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
    changed_.wait(lock, [this] { return ending_ || (!ranges_.empty() && !at_work_ && !awaited_); });
    if (ending_) return;
    work(lock);
  }
}

void SumQueue::work(std::unique_lock<std::mutex>& lock) {
  const Range range = ranges_.front();
  at_work_ = true;
  lock.unlock();
  const Status status = sum_(range.data, range.count, awaited_);
  lock.lock();
  at_work_ = false;
  if (status) {
    ranges_.pop_front();
  } else {
    failed_ = status.error();
    ranges_.clear();
  }
  if (ranges_.empty()) seconds_.under_way += seconds_of(Clock::now() - busy_since_);
  changed_.notify_all();
}

}  // namespace fedqueue
