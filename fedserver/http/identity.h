// Who is at the other end of a connection, and whether the registry still lets it speak.
//
// Thread safety: plain values and free functions; an AdmissionPort is called from several threads.
#pragma once

#include <openssl/x509.h>

#include <functional>
#include <string>

#include "core/base/result.h"
#include "core/kit/calendar.h"
#include "core/kit/identity.h"
#include "fedserver/certificates/registry.h"

namespace fedqueue::http {

struct Peer {
  Identity identity;
  std::string fingerprint;
  CalendarTime not_after;

  [[nodiscard]] const std::string& name() const { return identity.name; }
  // "facility 'site-a'"
  [[nodiscard]] std::string text() const;
};

// REQUIRES: the certificate was verified during the handshake.
[[nodiscard]] Result<Peer> peer_of(const X509* certificate);

// Whether this peer may (still) speak: errors `revoked` and `identity`. Called for every request,
// so that a revocation acts at once.
using AdmissionPort = std::function<Status(const Peer&)>;

// The registry's word; it must outlive the port.
[[nodiscard]] AdmissionPort admission_by(const Registry& registry);

}  // namespace fedqueue::http
