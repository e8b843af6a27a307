// What a `fedserver cert` command tells its user, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "core/kit/calendar.h"
#include "fedserver/certificates/registry.h"

namespace fedqueue {

struct CertificateReport {
  std::string text;                // lines for a terminal
  std::string json;                // one JSON value, without a final line end
  std::vector<std::string> notes;  // for standard error: expiries ahead
};

// "valid", "expires soon", "expired", "not valid yet" or "revoked".
[[nodiscard]] std::string certificate_state(const CertificateRecord& record, CalendarTime now);

// All certificates and facilities: a table, and JSON with full fingerprints.
[[nodiscard]] CertificateReport list_report(const std::vector<CertificateRecord>& certificates,
                                            const std::vector<EnrolledFacility>& facilities,
                                            CalendarTime now);

// One sentence about some certificates, with the same JSON objects.
[[nodiscard]] CertificateReport change_report(const std::string& sentence,
                                              const std::vector<CertificateRecord>& certificates,
                                              CalendarTime now);

}  // namespace fedqueue
