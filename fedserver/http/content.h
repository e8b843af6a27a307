// The small grammars of HTTP about parts of a content: Range, Content-Range and entity tags.
//
// Numbers are 64 bits wide throughout; whatever does not fit is refused, never cut off.
// Source: RFC 9110, sections 13 and 14. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace fedqueue::http {

// Bytes first … first + count - 1.
struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// What a Range header asks of a content of `bytes` bytes.
struct RangeAsked {
  enum class Kind { whole, part, unsatisfiable };
  Kind kind = Kind::whole;
  ByteRange range;
};

// One range is served as a part; several ranges, other units and malformed values are ignored, as
// the standard allows, and the whole is sent.
[[nodiscard]] RangeAsked parse_range(std::string_view header, std::uint64_t bytes);

// Where the body of an upload belongs.
struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t total = 0;
};

// `bytes a-b/total`; for a remainder of no bytes, `bytes */total` stands for its end.
[[nodiscard]] Result<ContentRange> parse_content_range(std::string_view header);

// Digits alone; nothing when there is anything else or the number has more than 64 bits.
[[nodiscard]] std::optional<std::uint64_t> parse_unsigned(std::string_view text);

// True when the list of entity tags of an If-None-Match names this tag (given without quotes).
[[nodiscard]] bool names_tag(std::string_view header, std::string_view tag);

}  // namespace fedqueue::http
