#include "fedclient/signals.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

namespace fedqueue {
namespace {

constexpr auto slice = std::chrono::milliseconds(50);

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void block_signals() {
  const sigset_t set = watched();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

std::string taken_signal() {
  const sigset_t set = watched();
  const timespec at_once{0, 0};
  switch (::sigtimedwait(&set, nullptr, &at_once)) {
    case SIGINT:
      return "SIGINT";
    case SIGTERM:
      return "SIGTERM";
    case SIGHUP:
      return "SIGHUP";
    default:
      return "";
  }
}

bool signal_pending() {
  sigset_t pending;
  ::sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
         sigismember(&pending, SIGHUP) == 1;
}

void sleep_unless_signalled(Duration time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!signal_pending()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return;
    std::this_thread::sleep_for(std::min<std::chrono::steady_clock::duration>(left, slice));
  }
}

}  // namespace fedqueue
