// Small things with text that several parts need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fedqueue {

// The candidate that a mistyped word most likely meant (edit distance ≤ a third of its length, at
// least 2), or empty.
[[nodiscard]] std::string nearest(std::string_view word,
                                  const std::vector<std::string>& candidates);

[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);
[[nodiscard]] std::string_view trim(std::string_view text);
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);

// The whole text as a number, or nothing.
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);
[[nodiscard]] std::optional<double> parse_real(std::string_view text);

[[nodiscard]] bool is_utf8(std::string_view text);

// UTC, ISO-8601 with milliseconds: 2026-05-04T12:00:00.000Z.
[[nodiscard]] std::string utc_now();

}  // namespace fedqueue
