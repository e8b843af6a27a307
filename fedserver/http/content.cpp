#include "fedserver/http/content.h"

#include <algorithm>
#include <charconv>

#include "core/base/text.h"

namespace fedqueue::http {
namespace {

constexpr std::string_view unit = "bytes";

bool starts_with_unit(std::string_view& text, char after) {
  if (text.size() <= unit.size() || text[unit.size()] != after) return false;
  for (std::size_t i = 0; i < unit.size(); ++i) {
    const char letter = text[i];
    const char lower = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
    if (lower != unit[i]) return false;
  }
  text.remove_prefix(unit.size() + 1);
  return true;
}

}  // namespace

std::optional<std::uint64_t> parse_unsigned(std::string_view text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  std::uint64_t value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

RangeAsked parse_range(std::string_view header, std::uint64_t bytes) {
  std::string_view text = trim(header);
  if (!starts_with_unit(text, '=') || text.find(',') != std::string_view::npos) return {};
  text = trim(text);
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) return {};
  const std::string_view from = text.substr(0, dash);
  const std::string_view to = text.substr(dash + 1);
  if (from.empty()) {
    const auto suffix = parse_unsigned(to);
    if (!suffix) return {};
    if (*suffix == 0 || bytes == 0) return {RangeAsked::Kind::unsatisfiable, {}};
    const std::uint64_t count = std::min(*suffix, bytes);
    return {RangeAsked::Kind::part, {bytes - count, count}};
  }
  const auto first = parse_unsigned(from);
  const auto last = to.empty() ? std::optional<std::uint64_t>(UINT64_MAX) : parse_unsigned(to);
  if (!first || !last || *last < *first) return {};
  if (*first >= bytes) return {RangeAsked::Kind::unsatisfiable, {}};
  return {RangeAsked::Kind::part, {*first, std::min(*last, bytes - 1) - *first + 1}};
}

Result<ContentRange> parse_content_range(std::string_view header) {
  const auto refuse = [&] {
    return Error{Code::usage,
                 "read the Content-Range header: got '" + std::string(header) +
                     "', expected 'bytes FIRST-LAST/TOTAL'",
                 "Send the position of the body's first and last byte and the size of the whole."};
  };
  std::string_view text = trim(header);
  if (!starts_with_unit(text, ' ')) return refuse();
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return refuse();
  const auto total = parse_unsigned(text.substr(slash + 1));
  const std::string_view range = text.substr(0, slash);
  if (!total) return refuse();
  if (range == "*") return ContentRange{*total, 0, *total};
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) return refuse();
  const auto first = parse_unsigned(range.substr(0, dash));
  const auto last = parse_unsigned(range.substr(dash + 1));
  if (!first || !last || *last < *first || *last >= *total) return refuse();
  return ContentRange{*first, *last - *first + 1, *total};
}

bool names_tag(std::string_view header, std::string_view tag) {
  for (const std::string& part : split(header, ',')) {
    std::string_view one = trim(part);
    if (one == "*") return true;
    if (one.starts_with("W/")) one.remove_prefix(2);
    if (one.size() >= 2 && one.front() == '"' && one.back() == '"') {
      one = one.substr(1, one.size() - 2);
    }
    if (one == tag) return true;
  }
  return false;
}

}  // namespace fedqueue::http
