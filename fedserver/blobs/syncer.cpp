#include "fedserver/blobs/syncer.h"

#include <utility>

namespace fedqueue {

Syncer::Syncer(Syncing syncing) {
  if (syncing == Syncing::behind) thread_ = std::thread([this] { work(); });
}

Syncer::~Syncer() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  given_.notify_one();
  thread_.join();
}

void Syncer::post(std::function<void()> job) {
  if (!thread_.joinable()) return job();
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  given_.notify_one();
}

void Syncer::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    given_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
}

}  // namespace fedqueue
