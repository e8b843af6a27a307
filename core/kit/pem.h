// Keys and certificates in PEM files.
//
// A private key is created with mode 0600 and refused when anybody but its owner may read it. Keys
// are read without a passphrase prompt: programs run unattended, so the file's mode is the guard.
//
// Thread safety: may be called from any thread on distinct paths.
#pragma once

#include <filesystem>
#include <string>

#include "core/base/result.h"
#include "core/kit/openssl_types.h"

namespace fedqueue {

// The newest reason in OpenSSL's error queue, which is then emptied.
[[nodiscard]] std::string openssl_reason();

// A new EC key on P-256.
[[nodiscard]] Result<KeyPtr> generate_key();

// Code::kit if it is missing, not PEM, or readable by others.
[[nodiscard]] Result<KeyPtr> read_private_key(const std::filesystem::path& path);
// The first certificate of the file.
[[nodiscard]] Result<CertificatePtr> read_certificate(const std::filesystem::path& path);

[[nodiscard]] Result<std::string> private_key_pem(EVP_PKEY* key);
[[nodiscard]] Result<std::string> certificate_pem(X509* certificate);

// Replaces the file at once; it has mode 0600 from its first byte on.
Status write_private_key(const std::filesystem::path& path, EVP_PKEY* key);
Status write_certificate(const std::filesystem::path& path, X509* certificate);

// Makes a folder (and the missing ones above it) that only its owner may enter.
Status make_private_directory(const std::filesystem::path& directory);

}  // namespace fedqueue
