#include "core/base/ids.h"

#include <algorithm>
#include <charconv>

namespace fedqueue {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_job_id(std::string_view text) {
  if (text.empty() || text.size() > 40 || !is_digit(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || c == '_'; });
}

// A plain decimal number without sign or leading zeros, so that every id has one spelling.
bool parse_count(std::string_view text, int& out) {
  if (text.empty() || text.size() > 9 || (text.size() > 1 && text.front() == '0')) return false;
  if (!std::all_of(text.begin(), text.end(), is_digit)) return false;
  return std::from_chars(text.data(), text.data() + text.size(), out).ec == std::errc();
}

}  // namespace

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 63) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-'; });
}

AttemptId make_attempt_id(std::string_view job_id, int restart_count) {
  return AttemptId(std::string(job_id) + "." + std::to_string(restart_count));
}

Result<AttemptParts> parse_attempt_id(std::string_view text) {
  const std::size_t dot = text.find('.');
  AttemptParts parts;
  if (dot == std::string_view::npos || !is_job_id(text.substr(0, dot)) ||
      !parse_count(text.substr(dot + 1), parts.restart_count)) {
    return Error{Code::usage, "'" + std::string(text) + "' is not an attempt id",
                 "An attempt id is JOBID.RESTARTS, as 10001.0."};
  }
  parts.job_id = std::string(text.substr(0, dot));
  return parts;
}

UpdateId make_update_id(const FacilityId& facility, const AttemptId& attempt, int segment) {
  return UpdateId(facility.str() + "." + attempt.str() + "." + std::to_string(segment));
}

Result<UpdateParts> parse_update_id(std::string_view text) {
  const Error malformed{Code::usage, "'" + std::string(text) + "' is not an update id",
                        "An update id is FACILITY.JOBID.RESTARTS.SEGMENT, as site-a.10001.0.1."};
  const std::size_t first = text.find('.');
  const std::size_t last = text.rfind('.');
  if (first == std::string_view::npos || last <= first) return malformed;
  UpdateParts parts;
  if (!is_name(text.substr(0, first))) return malformed;
  const Result<AttemptParts> attempt = parse_attempt_id(text.substr(first + 1, last - first - 1));
  if (!attempt || !parse_count(text.substr(last + 1), parts.segment) || parts.segment < 1) {
    return malformed;
  }
  parts.facility = FacilityId(std::string(text.substr(0, first)));
  parts.attempt = make_attempt_id(attempt->job_id, attempt->restart_count);
  return parts;
}

}  // namespace fedqueue
