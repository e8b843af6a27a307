// Certificates for tests, made on the spot: authorities, servers and facilities.
#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <filesystem>
#include <memory>
#include <string>

namespace fedqueue::test {

struct Identity {
  std::shared_ptr<X509> certificate;
  std::shared_ptr<EVP_PKEY> key;
};

struct Wanted {
  std::string common_name;
  std::string names;            // subjectAltName, as "DNS:localhost,IP:127.0.0.1"; may be empty
  std::string extended_usage;   // "serverAuth", "clientAuth"; empty for an authority
  long valid_from_s = -3600;    // from now
  long valid_to_s = 24 * 3600;  // from now
};

Identity make_authority(const std::string& common_name);
Identity make_certificate(const Identity& authority, const Wanted& wanted);

void write_certificate(const Identity& identity, const std::filesystem::path& path);
void write_key(const Identity& identity, const std::filesystem::path& path);

}  // namespace fedqueue::test
