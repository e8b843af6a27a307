#include "fedserver/certificates/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/kit/identity.h"
#include "core/kit/kit.h"

namespace fedqueue {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const CertificateRecord& record, CalendarTime now) {
  Json json = {{"fingerprint", record.fingerprint},
               {"kind", record.kind},
               {"name", record.name},
               {"serial", record.serial},
               {"not_before", calendar_text(record.not_before)},
               {"not_after", calendar_text(record.not_after)},
               {"issued_at", calendar_text(record.issued_at)},
               {"revoked_at", nullptr},
               {"state", certificate_state(record, now)}};
  if (record.revoked_at) json["revoked_at"] = calendar_text(*record.revoked_at);
  return json;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    text += line + "\n";
  }
  return text;
}

bool usable(const CertificateRecord& record, CalendarTime now) {
  return !record.revoked_at && record.not_after > now;
}

// A certificate that was renewed is no reason to worry about its end.
bool replaced(const CertificateRecord& record, const std::vector<CertificateRecord>& all,
              CalendarTime now) {
  return std::any_of(all.begin(), all.end(), [&](const CertificateRecord& other) {
    return other.kind == record.kind && other.name == record.name && usable(other, now) &&
           other.not_after > record.not_after;
  });
}

}  // namespace

std::string certificate_state(const CertificateRecord& record, CalendarTime now) {
  if (record.revoked_at) return "revoked";
  if (record.not_after <= now) return "expired";
  if (record.not_before > now) return "not valid yet";
  return record.not_after - now <= certificate_warning_days ? "expires soon" : "valid";
}

CertificateReport list_report(const std::vector<CertificateRecord>& certificates,
                              const std::vector<EnrolledFacility>& facilities, CalendarTime now) {
  std::vector<std::vector<std::string>> rows = {
      {"KIND", "NAME", "STATE", "VALID UNTIL", "SAMPLES", "FINGERPRINT"}};
  CertificateReport report;
  Json listed = Json::array();
  for (const CertificateRecord& record : certificates) {
    std::string samples = "-";
    for (const EnrolledFacility& facility : facilities) {
      if (record.kind == "facility" && facility.name.str() == record.name) {
        samples = std::to_string(facility.samples);
      }
    }
    rows.push_back({record.kind, record.name, certificate_state(record, now),
                    calendar_text(record.not_after), samples, record.fingerprint.substr(0, 16)});
    listed.push_back(json_of(record, now));
    if (!record.revoked_at && !replaced(record, certificates, now)) {
      std::string note = expiry_note(record.name, record.not_after, now);
      if (!note.empty()) report.notes.push_back(std::move(note));
    }
  }
  Json enrolled = Json::array();
  for (const EnrolledFacility& facility : facilities) {
    enrolled.push_back({{"name", facility.name.str()},
                        {"samples", facility.samples},
                        {"enrolled_at", calendar_text(facility.enrolled_at)}});
  }
  report.text = table(rows);
  report.json = Json{{"certificates", listed}, {"facilities", enrolled}}.dump(2);
  return report;
}

CertificateReport change_report(const std::string& sentence,
                                const std::vector<CertificateRecord>& certificates,
                                CalendarTime now) {
  CertificateReport report;
  report.text = sentence + "\n";
  Json listed = Json::array();
  for (const CertificateRecord& record : certificates) listed.push_back(json_of(record, now));
  report.json = Json{{"message", sentence}, {"certificates", listed}}.dump(2);
  return report;
}

}  // namespace fedqueue
