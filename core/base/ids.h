// Names that must not be mixed up, each a type of its own around a string.
//
// Names of people's choosing (runs, facilities) are `[a-z0-9-]+`, 1 to 63 characters, so that they
// are safe in a path, a URL, a certificate and a log line without any escaping.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace fedqueue {

template <typename Tag>
struct Name {
  std::string text;

  Name() = default;
  explicit Name(std::string value) : text(std::move(value)) {}
  [[nodiscard]] const std::string& str() const { return text; }
  [[nodiscard]] bool empty() const { return text.empty(); }
  friend auto operator<=>(const Name&, const Name&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Name& name) { return out << name.text; }
};

using RunId = Name<struct RunTag>;
using FacilityId = Name<struct FacilityTag>;
// One launch of one job: "JOBID.RESTARTS" of the scheduler, as "10001.0".
using AttemptId = Name<struct AttemptTag>;
// One update: "FACILITY.JOBID.RESTARTS.SEGMENT", as "site-a.10001.0.1".
using UpdateId = Name<struct UpdateTag>;

// Number of published models before this one; the initial model is version 0.
using Version = std::int64_t;

// True for `[a-z0-9-]+` of at most 63 characters.
[[nodiscard]] bool is_name(std::string_view text);

// The scheduler's own figures behind an attempt.
struct AttemptParts {
  std::string job_id;  // digits, with `_` for array tasks: "10001", "10001_4"
  int restart_count = 0;
};

[[nodiscard]] AttemptId make_attempt_id(std::string_view job_id, int restart_count);
[[nodiscard]] Result<AttemptParts> parse_attempt_id(std::string_view text);

struct UpdateParts {
  FacilityId facility;
  AttemptId attempt;
  int segment = 0;  // from 1
};

[[nodiscard]] UpdateId make_update_id(const FacilityId& facility, const AttemptId& attempt,
                                      int segment);
[[nodiscard]] Result<UpdateParts> parse_update_id(std::string_view text);

}  // namespace fedqueue

template <typename Tag>
struct std::hash<fedqueue::Name<Tag>> {
  std::size_t operator()(const fedqueue::Name<Tag>& name) const noexcept {
    return std::hash<std::string>()(name.text);
  }
};
