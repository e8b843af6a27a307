// What the link needs to know about certificates: to check the kit before it is used, and to say
// what was wrong with the server's.
//
// Thread safety: the functions may be called from any thread; one watch belongs to one transport.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/result.h"
#include "fedclient/link/faults.h"

namespace fedqueue {

struct KitCertificates {
  std::string ca_subject;
  std::string own_subject;
  std::string own_issuer;
  std::string own_valid_to;
};

// Reads the three PEM files. Errors of code kit: missing, unreadable, not what they should be, the
// key does not belong to the certificate, or others may read the key.
Result<KitCertificates> check_kit(const std::filesystem::path& ca,
                                  const std::filesystem::path& certificate,
                                  const std::filesystem::path& key);

// Makes every handshake of this context leave what it saw in `peer`, which must outlive it.
// `context` is an SSL_CTX*.
void watch_handshakes(void* context, PeerCertificate* peer);

}  // namespace fedqueue
