#include "fedclient/collective/watchdog.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>

namespace fedqueue {
namespace {

constexpr auto kTick = std::chrono::milliseconds(200);
constexpr auto kAbortPatience = std::chrono::seconds(5);

}  // namespace

Watchdog::Watchdog(Collective& collective, double limit_s)
    : collective_(collective), limit_s_(limit_s) {
  if (limit_s_ > 0) thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch(const std::string& doing) {
  const std::lock_guard lock(mutex_);
  doing_ = doing;
  watching_ = true;
  ++marks_;
  changed_.notify_all();
}

void Watchdog::mark(std::int64_t step) {
  step_.store(step, std::memory_order_relaxed);
  marks_.fetch_add(1, std::memory_order_relaxed);
}

void Watchdog::rest() {
  const std::lock_guard lock(mutex_);
  watching_ = false;
  ++marks_;
}

void Watchdog::on_expiry(std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  on_expiry_ = std::move(action);
}

void Watchdog::run() {
  std::unique_lock lock(mutex_);
  std::int64_t marks_seen = marks_;
  std::int64_t ticks_without_progress = 0;
  const auto ticks_allowed =
      static_cast<std::int64_t>(limit_s_ / std::chrono::duration<double>(kTick).count()) + 1;
  while (!ending_) {
    if (watching_) {
      changed_.wait_for(lock, kTick);
    } else {
      changed_.wait(lock, [this] { return watching_ || ending_; });
    }
    const std::int64_t marks_now = marks_;
    if (!watching_ || marks_now != marks_seen) {
      marks_seen = marks_now;
      ticks_without_progress = 0;
    } else if (++ticks_without_progress >= ticks_allowed) {
      expire();
    }
  }
}

// Called with the mutex held; the process does not come back from here.
void Watchdog::expire() {
  const int exit_code = static_cast<int>(Code::rank_lost);
  // First the hard exit, since everything after it may hang.
  std::thread([exit_code] {
    std::this_thread::sleep_for(kAbortPatience);
    ::_exit(exit_code);
  }).detach();
  std::fprintf(stderr,
               "rank %d of %d on %s: no progress for %.0f s at step %lld while %s; a rank died or "
               "stalled, the job is ended\n",
               collective_.rank(), collective_.size(), collective_.host().c_str(), limit_s_,
               static_cast<long long>(step_.load()), doing_.c_str());
  if (on_expiry_) on_expiry_();
  collective_.abort(exit_code);
  ::_exit(exit_code);
}

}  // namespace fedqueue
