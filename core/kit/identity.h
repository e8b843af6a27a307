// Who a certificate speaks for.
//
// The operator writes it into the certificate as a subject alternative name of the form
// `fedqueue:KIND:NAME`; nothing else in a certificate says who its owner is. A certificate with no
// such name, with two, or with a malformed one belongs to nobody.
//
// Thread safety: pure functions; the certificate must not change meanwhile.
#pragma once

#include <openssl/x509.h>

#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/kit/calendar.h"

namespace fedqueue {

enum class IdentityKind {
  facility,       // trains, and reads its own state
  administrator,  // "operator" in certificates and on the command line; the word is C++'s
  observer,       // reads everything, changes nothing
};

// "facility", "operator" or "observer".
[[nodiscard]] const char* identity_kind_name(IdentityKind kind);
[[nodiscard]] std::optional<IdentityKind> identity_kind_named(std::string_view name);

struct Identity {
  IdentityKind kind = IdentityKind::facility;
  std::string name;  // is_name()

  friend bool operator==(const Identity&, const Identity&) = default;
};

// "fedqueue:facility:site-a"
[[nodiscard]] std::string identity_uri(const Identity& identity);
[[nodiscard]] Result<Identity> parse_identity_uri(std::string_view uri);

// The identity in a certificate that was verified before; Code::identity if there is none.
[[nodiscard]] Result<Identity> identity_of(const X509* certificate);

// SHA-256 of the certificate's DER form, 64 hexadecimal digits: the key of the server's registry.
[[nodiscard]] std::string fingerprint_of(const X509* certificate);

[[nodiscard]] CalendarTime not_before_of(const X509* certificate);
[[nodiscard]] CalendarTime not_after_of(const X509* certificate);

// 2026-05-04T12:00:00Z
[[nodiscard]] std::string calendar_text(CalendarTime time);

}  // namespace fedqueue
