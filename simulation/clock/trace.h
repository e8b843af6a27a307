// What happened in a simulated world, as a hash and, for whoever listens, as lines.
//
// The hash takes in everything that is mixed or told, in order; it is the same on every platform.
// Not a cryptographic hash: it finds differences between two runs of one program.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/time.h"

namespace fedqueue::simulation {

class Trace {
 public:
  using Listener = std::function<void(Instant, const std::string& who, const std::string& text)>;

  void mix(std::uint64_t value);
  void mix(std::string_view text);
  void mix_real(double value);  // its bits, so that two roundings differ

  // `detail` is for the listener alone.
  void tell(Instant now, const std::string& who, const std::string& text,
            const std::string& detail = "");
  void listen(Listener listener) { listener_ = std::move(listener); }
  // True when lines are heard: what only a reader wants need not be made otherwise.
  [[nodiscard]] bool heard() const { return static_cast<bool>(listener_); }

  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  // The same as 16 hexadecimal digits.
  [[nodiscard]] std::string hex() const;

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
  Listener listener_;
};

}  // namespace fedqueue::simulation
