// The server's certificate, key and CA, read again when their files change, and what the failures
// of a handshake mean.
//
// Promises: mutual TLS 1.2 or 1.3 with forward secrecy and nothing weaker; a client without a
// certificate of this CA gets no further than the handshake; new files that cannot be used leave
// the old ones in force and are reported once. Sessions are not resumed, so that every connection
// shows its certificate.
//
// Thread-safe.
#pragma once

#include <openssl/ssl.h>

#include <ctime>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "core/base/log.h"
#include "core/base/result.h"

namespace fedqueue::http {

struct TlsFiles {
  std::filesystem::path ca;           // PEM; signs the clients' certificates
  std::filesystem::path certificate;  // PEM; the server's, with its chain
  std::filesystem::path key;          // PEM; readable by its owner alone
};

class TlsCertificates {
 public:
  static Result<std::unique_ptr<TlsCertificates>> load(TlsFiles files, Log log);

  [[nodiscard]] std::shared_ptr<SSL_CTX> current() const;
  // End of the server certificate's validity.
  [[nodiscard]] std::time_t expires_at() const;
  // Looks whether the files changed. True when new ones are in force.
  bool refresh();

 private:
  TlsCertificates(TlsFiles files, Log log) : files_(std::move(files)), log_(std::move(log)) {}
  [[nodiscard]] std::string stamp() const;

  TlsFiles files_;
  Log log_;
  mutable std::mutex mutex_;
  std::shared_ptr<SSL_CTX> context_;  // guarded by mutex_
  std::time_t expires_at_ = 0;        // guarded by mutex_
  std::string stamp_;                 // of the files last tried; guarded by mutex_
};

// Why a handshake failed, as a word for metrics and an error for the log.
struct HandshakeFailure {
  const char* word = "other";  // no-certificate untrusted expired version plaintext refused …
  Error why;
};

// REQUIRES: called on the thread on which the handshake failed, before any other OpenSSL call.
[[nodiscard]] HandshakeFailure explain_handshake(const SSL* ssl);

}  // namespace fedqueue::http
