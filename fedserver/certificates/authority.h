// The run's own certificate authority.
//
// It signs certificates of exactly two shapes, and nothing in a request can change them:
//
//   server   extended key usage serverAuth alone; DNS names and addresses
//   client   extended key usage clientAuth alone; one URI fedqueue:KIND:NAME
//
// Both are critical where a verifier must not ignore them, and can sign nothing themselves (the
// CA's path length is 0). Keys are EC P-256; serial numbers are 128 random bits.
//
// Not thread-safe; distinct objects are independent.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/kit/calendar.h"
#include "core/kit/identity.h"
#include "core/kit/openssl_types.h"

namespace fedqueue {

struct IssuedCertificate {
  CertificatePtr certificate;
  std::string fingerprint;  // SHA-256, 64 hexadecimal digits
  std::string serial;       // hexadecimal
  CalendarTime not_before;
  CalendarTime not_after;
};

struct Validity {
  CalendarTime now = calendar_now();
  std::chrono::days lifetime{365};
};

class Authority {
 public:
  // Makes ca.crt and ca.key in the folder; conflict if there is one already. The subject is for
  // people, as "FedQueue CA of run mnist".
  static Result<Authority> create(const std::filesystem::path& directory,
                                  const std::string& run_name,
                                  const Validity& validity = {.lifetime = std::chrono::days{3650}});
  // Reads them; Code::kit if the key is missing, too open or not the certificate's.
  static Result<Authority> open(const std::filesystem::path& directory);

  // At least one name or address. An address among the names is taken as the address it is.
  Result<IssuedCertificate> issue_server(const std::vector<std::string>& host_names,
                                         const std::vector<std::string>& addresses, EVP_PKEY* key,
                                         const Validity& validity) const;

  // Only the public half of the key is used.
  Result<IssuedCertificate> issue_client(const Identity& identity, EVP_PKEY* key,
                                         const Validity& validity) const;

  [[nodiscard]] const X509* certificate() const { return certificate_.get(); }
  [[nodiscard]] const std::filesystem::path& certificate_file() const { return certificate_file_; }

 private:
  Authority(CertificatePtr certificate, KeyPtr key, std::filesystem::path certificate_file)
      : certificate_(std::move(certificate)),
        key_(std::move(key)),
        certificate_file_(std::move(certificate_file)) {}
  Result<IssuedCertificate> finish(CertificatePtr certificate) const;

  CertificatePtr certificate_;
  KeyPtr key_;
  std::filesystem::path certificate_file_;
};

}  // namespace fedqueue
