// Time as the engine sees it: accumulated server uptime, which stands still while the server is
// down and never goes back. Wall-clock time is for logs and for the scheduler's own records alone.
#pragma once

#include <chrono>
#include <cstdint>

namespace fedqueue {

using Duration = std::chrono::microseconds;

struct UptimeClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<UptimeClock, duration>;
  static constexpr bool is_steady = true;
};

using Instant = UptimeClock::time_point;

[[nodiscard]] constexpr double to_seconds(Duration duration) {
  return static_cast<double>(duration.count()) / 1e6;
}
[[nodiscard]] constexpr Duration from_seconds(double seconds) {
  return Duration(static_cast<std::int64_t>(seconds * 1e6));
}
[[nodiscard]] constexpr std::int64_t to_micros(Instant instant) {
  return instant.time_since_epoch().count();
}
[[nodiscard]] constexpr Instant from_micros(std::int64_t micros) {
  return Instant(Duration(micros));
}

}  // namespace fedqueue
