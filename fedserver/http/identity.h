// Who is at the other end of a connection, and who says so.
//
// Thread safety: plain values; the ports are called from several threads.
#pragma once

#include <openssl/x509.h>

#include <ctime>
#include <functional>
#include <string>

#include "core/base/result.h"

namespace fedqueue::http {

enum class Role { facility, run_operator, observer };

[[nodiscard]] inline const char* to_text(Role role) {
  switch (role) {
    case Role::facility:
      return "facility";
    case Role::run_operator:
      return "operator";
    case Role::observer:
      return "observer";
  }
  return "observer";
}

struct Peer {
  Role role = Role::observer;
  std::string name;
  std::string fingerprint;     // as the registry keeps it
  std::time_t expires_at = 0;  // end of the certificate's validity; 0: unknown
};

// Reads the identity from a certificate that the CA vouches for. Called once per connection.
using IdentityPort = std::function<Result<Peer>(const X509*)>;

// Whether this peer may (still) speak: `revoked` and `identity` errors. Called for every request,
// so that a revocation acts at once. Must be quick.
using AdmissionPort = std::function<Status(const Peer&)>;

}  // namespace fedqueue::http
