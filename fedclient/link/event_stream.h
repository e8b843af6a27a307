// Server-sent events from a stream of bytes (HTML Living Standard, section 9.2): fields `id`,
// `event` and `data`, an empty line ends an event, lines that begin with a colon are comments.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "fedclient/link/link.h"

namespace fedqueue {

class EventStream {
 public:
  // The events that these bytes complete. A line longer than 1 MiB is cut.
  std::vector<ServerEvent> feed(std::span<const std::byte> bytes);

 private:
  void take_line(std::vector<ServerEvent>& events);
  std::string line_;
  ServerEvent event_;
  bool has_data_ = false;
  bool after_return_ = false;
};

}  // namespace fedqueue
