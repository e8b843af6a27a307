// Reads INI text, keeping the line of every key so that an error can point at it. (The INI reader
// of Boost.Program_options forgets the lines and cuts a value at any `#`.)
//
//   # a comment, as is ; at the start of a line, and # after a blank
//   [section]
//   key = value            → "section.key"
//   key = "  as it is # "  → quotes keep blanks and #
//
// Thread safety: a pure function.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

struct IniEntry {
  std::string name;
  std::string value;
  int line = 0;
};

// file_name is for errors. A line that is neither a section, a key nor a comment is an error; so
// are bytes that are not UTF-8.
[[nodiscard]] Result<std::vector<IniEntry>> parse_ini(std::string_view text,
                                                      const std::string& file_name);

}  // namespace fedqueue
