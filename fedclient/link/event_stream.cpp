#include "fedclient/link/event_stream.h"

#include "core/base/text.h"

namespace fedqueue {
namespace {

constexpr std::size_t line_bytes_max = 1u << 20;

}  // namespace

std::vector<ServerEvent> EventStream::feed(std::span<const std::byte> bytes) {
  std::vector<ServerEvent> events;
  for (const std::byte byte : bytes) {
    const char character = static_cast<char>(byte);
    if (character == '\n' && after_return_) {  // the second half of \r\n
      after_return_ = false;
      continue;
    }
    after_return_ = character == '\r';
    if (character == '\n' || character == '\r') {
      take_line(events);
    } else if (line_.size() < line_bytes_max) {
      line_ += character;
    }
  }
  return events;
}

void EventStream::take_line(std::vector<ServerEvent>& events) {
  std::string line;
  line.swap(line_);
  if (line.empty()) {
    if (has_data_) events.push_back(event_);
    event_ = ServerEvent();
    has_data_ = false;
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == 0) return;
  const std::string field = line.substr(0, colon);
  std::string value = colon == std::string::npos ? "" : line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.erase(0, 1);
  if (field == "id") {
    event_.id = parse_integer(value).value_or(0);
  } else if (field == "event") {
    event_.kind = value;
  } else if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  }
}

}  // namespace fedqueue
