#include "fedclient/trainer/stop_signals.h"

#include <signal.h>

#include <atomic>

namespace fedqueue {
namespace {

std::atomic<int> signal_seen{0};
static_assert(std::atomic<int>::is_always_lock_free, "the handler may only touch lock-free state");

void note(int number) { signal_seen = number; }

}  // namespace

void watch_stop_signals() {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGXCPU}) {
    struct sigaction action {};
    action.sa_handler = note;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    ::sigaction(number, &action, nullptr);
  }
}

std::string stop_signal_seen() {
  switch (signal_seen.load()) {
    case 0:
      return "";
    case SIGTERM:
      return "signal TERM";
    case SIGINT:
      return "signal INT";
    case SIGUSR1:
      return "signal USR1";
    case SIGUSR2:
      return "signal USR2";
    default:
      return "signal XCPU";
  }
}

}  // namespace fedqueue
