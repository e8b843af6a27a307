#include "simulation/clock/trace.h"

#include <bit>
#include <cstdio>

namespace fedqueue::simulation {

// The finalizer of splitmix64 over the running value: each input changes every bit.
void Trace::mix(std::uint64_t value) {
  std::uint64_t z = hash_ + value + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  hash_ = z ^ (z >> 31);
}

void Trace::mix(std::string_view text) {
  mix(text.size());
  std::uint64_t word = 0;
  std::size_t count = 0;
  for (const char letter : text) {
    word = (word << 8) | static_cast<unsigned char>(letter);
    if (++count % 8 == 0) {
      mix(word);
      word = 0;
    }
  }
  if (count % 8 != 0) mix(word);
}

void Trace::mix_real(double value) { mix(std::bit_cast<std::uint64_t>(value)); }

void Trace::tell(Instant now, const std::string& who, const std::string& text,
                 const std::string& detail) {
  mix(static_cast<std::uint64_t>(to_micros(now)));
  mix(who);
  mix(text);
  if (listener_) listener_(now, who, detail.empty() ? text : text + " " + detail);
}

std::string Trace::hex() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash_));
  return text;
}

}  // namespace fedqueue::simulation
