// Texts as a broken or hostile peer would send them: a good one with a few random changes.
#pragma once

#include <algorithm>
#include <span>
#include <string>

#include "core/base/prng.h"

namespace fedqueue::http::test {

inline std::string mutated(std::string text, std::span<const std::string> others, Prng& random) {
  static const std::string nasty[] = {"\r\n",
                                      "\r\n\r\n",
                                      "\n",
                                      std::string(1, '\0'),
                                      "\xff\xfe",
                                      "18446744073709551616",
                                      "-1",
                                      "9223372036854775807",
                                      ":",
                                      "%00",
                                      "../",
                                      "\"",
                                      "{",
                                      "[[[[[[[[",
                                      "1e999",
                                      "\\ud800",
                                      " ",
                                      "\t",
                                      "Content-Length: 5\r\n",
                                      "Content-Length: 99999999999999999999\r\n",
                                      "Transfer-Encoding: chunked\r\n",
                                      "Expect: 100-continue\r\n"};
  const std::uint64_t changes = 1 + random.below(4);
  for (std::uint64_t change = 0; change < changes; ++change) {
    const std::size_t at = random.below(text.size() + 1);
    switch (random.below(7)) {
      case 0:  // another byte
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      case 1:  // something that is special to some grammar
        text.insert(at, nasty[random.below(std::size(nasty))]);
        break;
      case 2:  // a hole
        text.erase(at, random.below(20));
        break;
      case 3:  // cut off
        text.resize(at);
        break;
      case 4:  // a part twice
        text.insert(at, text.substr(at, random.below(60)));
        break;
      case 5:  // very long
        text.insert(at, std::string(random.below(30000), "aA0=/\r"[random.below(6)]));
        break;
      default: {  // the end of another
        const std::string& other = others[random.below(others.size())];
        text = text.substr(0, at) + other.substr(random.below(other.size() + 1));
        break;
      }
    }
  }
  return text;
}

}  // namespace fedqueue::http::test
