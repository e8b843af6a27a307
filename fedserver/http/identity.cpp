#include "fedserver/http/identity.h"

namespace fedqueue::http {

std::string Peer::text() const {
  return std::string(identity_kind_name(identity.kind)) + " '" + identity.name + "'";
}

Result<Peer> peer_of(const X509* certificate) {
  Result<Identity> identity = identity_of(certificate);
  if (!identity) return identity.error();
  return Peer{std::move(*identity), fingerprint_of(certificate), not_after_of(certificate)};
}

AdmissionPort admission_by(const Registry& registry) {
  return [&registry](const Peer& peer) -> Status {
    const Result<std::optional<Standing>> standing = registry.lookup(peer.fingerprint);
    if (!standing) return standing.error();
    if (!*standing) {
      return Error{Code::identity,
                   "the certificate of " + peer.text() + " was not issued by this server",
                   "Ask the operator for a kit made with 'fedserver cert'."};
    }
    if ((*standing)->revoked) {
      return Error{Code::revoked, "the certificate of " + peer.text() + " was revoked",
                   "Ask the operator for a new kit."};
    }
    return {};
  };
}

}  // namespace fedqueue::http
