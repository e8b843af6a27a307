// What the server knows about the certificates it issued and the facilities it enrolled.
//
// A certificate that is not here is refused even though the CA signed it, so that a lost CA key or
// a forgotten kit can be dealt with. The server asks at every connection and request; a revocation
// by another process (`fedserver cert revoke`) is seen by the very next question, without a
// restart.
//
// The file is SQLite with a write-ahead log and full synchronisation: what a call reported as done
// survives a crash. Several processes may have it open.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/kit/calendar.h"

namespace fedqueue {

struct CertificateRecord {
  std::string fingerprint;
  std::string kind;  // "server", or an identity_kind_name()
  std::string name;
  std::string serial;
  CalendarTime not_before;
  CalendarTime not_after;
  CalendarTime issued_at;
  std::optional<CalendarTime> revoked_at;
};

// The answer to "may this certificate speak?".
struct Standing {
  std::string kind;
  std::string name;
  bool revoked = false;
  CalendarTime not_after;
};

struct EnrolledFacility {
  FacilityId name;
  // The facility's share in the average. Fixed here, since a facility could claim any number.
  std::int64_t samples = 0;
  CalendarTime enrolled_at;
};

class Registry {
 public:
  // Makes the file if it is missing.
  static Result<Registry> open(const std::filesystem::path& path);
  Registry(Registry&&) noexcept;
  Registry& operator=(Registry&&) noexcept;
  ~Registry();

  Status record(const CertificateRecord& certificate);

  // Nothing if the server never issued it.
  [[nodiscard]] Result<std::optional<Standing>> lookup(const std::string& fingerprint) const;

  // All, oldest first.
  [[nodiscard]] Result<std::vector<CertificateRecord>> list() const;

  // Revokes all certificates of a name (of one kind, if given), or the one with that fingerprint:
  // 64 digits or at least the first 8 of them, in any case and with or without colons. Returns
  // those that were valid until now; revoking again changes nothing. not_found if there is none;
  // conflict if the name is used by several kinds and none was given, or if several fingerprints
  // begin so.
  Result<std::vector<CertificateRecord>> revoke(const std::string& name_or_fingerprint,
                                                const std::string& kind, CalendarTime now);

  // REQUIRES samples > 0. Enrolling again with the same number changes nothing; with another it is
  // a conflict.
  Status enrol(const FacilityId& facility, std::int64_t samples, CalendarTime now);
  // The deliberate way to change the number; not_found if the facility is not enrolled.
  Status change_samples(const FacilityId& facility, std::int64_t samples);
  [[nodiscard]] Result<std::optional<EnrolledFacility>> facility(const FacilityId& facility) const;
  // By name.
  [[nodiscard]] Result<std::vector<EnrolledFacility>> facilities() const;

 private:
  struct State;
  explicit Registry(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fedqueue
