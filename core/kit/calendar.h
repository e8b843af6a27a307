// Wall-clock time of certificates: whole seconds, UTC. The engine's time is another
// (core/base/time.h).
#pragma once

#include <chrono>

namespace fedqueue {

using CalendarTime = std::chrono::sys_seconds;

[[nodiscard]] inline CalendarTime calendar_now() {
  return std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
}

}  // namespace fedqueue
