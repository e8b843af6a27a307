// The run on one page for people: plain HTML that needs neither scripts nor anything from other
// servers, and loads itself again every few seconds.
//
// Whatever the status contains is escaped. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace fedqueue {

// `status` is the JSON of Engine::status(); what is missing from it is shown as "–".
[[nodiscard]] std::string status_page(std::string_view status);

}  // namespace fedqueue
