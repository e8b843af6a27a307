#include "fedserver/http/tls.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <utility>

namespace fedqueue::http {
namespace {

// Forward secrecy and authenticated encryption alone; TLS 1.3 has nothing else.
constexpr const char* ciphers =
    "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
    "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
// Several records per read from the socket.
constexpr std::size_t read_ahead_bytes = 64u << 10;

std::string openssl_reason() {
  const unsigned long fault = ERR_peek_last_error();
  ERR_clear_error();
  const char* text = fault == 0 ? nullptr : ERR_reason_error_string(fault);
  return text == nullptr ? "unknown reason" : text;
}

Error kit_error(const std::string& attempted, const std::filesystem::path& path) {
  return {Code::kit, attempted + " '" + path.string() + "': " + openssl_reason(),
          "Make the server's kit again with 'fedserver cert server'."};
}

Status check_key_mode(const std::filesystem::path& key) {
  struct stat status {};
  if (::stat(key.c_str(), &status) != 0) return storage_error("open '" + key.string() + "'", errno);
  if ((status.st_mode & 077) == 0) return {};
  return Error{Code::kit, "use the key '" + key.string() + "': others may read it",
               "Run: chmod 600 '" + key.string() + "'"};
}

Result<std::shared_ptr<SSL_CTX>> make_context(const TlsFiles& files) {
  if (Status closed = check_key_mode(files.key); !closed) return closed.error();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) return Error{Code::internal, "make a TLS context: " + openssl_reason(), ""};
  SSL_CTX* raw = context.get();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(raw, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);
  SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(raw, 1);
  SSL_CTX_set_default_read_buffer_len(raw, read_ahead_bytes);
  SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  ERR_clear_error();
  if (SSL_CTX_set_cipher_list(raw, ciphers) != 1) {
    return Error{Code::internal, "choose the TLS ciphers: " + openssl_reason(), ""};
  }
  if (SSL_CTX_load_verify_file(raw, files.ca.c_str()) != 1) {
    return kit_error("read the CA certificate", files.ca);
  }
  // Clients with several certificates learn which one is wanted.
  if (STACK_OF(X509_NAME)* names = SSL_load_client_CA_file(files.ca.c_str())) {
    SSL_CTX_set_client_CA_list(raw, names);
  }
  if (SSL_CTX_use_certificate_chain_file(raw, files.certificate.c_str()) != 1) {
    return kit_error("read the server's certificate", files.certificate);
  }
  if (SSL_CTX_use_PrivateKey_file(raw, files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return kit_error("use the server's key", files.key);
  }
  if (SSL_CTX_check_private_key(raw) != 1) {
    return kit_error("match the server's certificate with its key", files.key);
  }
  return context;
}

std::time_t expiry(const SSL_CTX* context) {
  const X509* certificate = SSL_CTX_get0_certificate(context);
  std::tm utc{};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &utc) != 1) {
    return 0;
  }
  return timegm(&utc);
}

}  // namespace

Result<std::unique_ptr<TlsCertificates>> TlsCertificates::load(TlsFiles files, Log log) {
  std::unique_ptr<TlsCertificates> loaded(new TlsCertificates(std::move(files), std::move(log)));
  loaded->stamp_ = loaded->stamp();
  Result<std::shared_ptr<SSL_CTX>> context = make_context(loaded->files_);
  if (!context) return context.error();
  loaded->context_ = *context;
  loaded->expires_at_ = expiry(loaded->context_.get());
  return loaded;
}

std::shared_ptr<SSL_CTX> TlsCertificates::current() const {
  const std::lock_guard lock(mutex_);
  return context_;
}

std::time_t TlsCertificates::expires_at() const {
  const std::lock_guard lock(mutex_);
  return expires_at_;
}

std::string TlsCertificates::stamp() const {
  std::string text;
  for (const std::filesystem::path* path : {&files_.ca, &files_.certificate, &files_.key}) {
    struct stat status {};
    if (::stat(path->c_str(), &status) != 0) continue;
    text += std::to_string(status.st_ino) + ' ' + std::to_string(status.st_size) + ' ' +
            std::to_string(status.st_mtim.tv_sec) + '.' + std::to_string(status.st_mtim.tv_nsec) +
            '\n';
  }
  return text;
}

bool TlsCertificates::refresh() {
  const std::string now = stamp();
  const std::lock_guard lock(mutex_);
  if (now == stamp_) return false;
  stamp_ = now;
  Result<std::shared_ptr<SSL_CTX>> context = make_context(files_);
  if (!context) {
    Error error = within("read the changed certificates", context.error());
    error.cure += error.cure.empty() ? "" : " ";
    error.cure += "Until then the old ones stay in force.";
    log_.error(error);
    return false;
  }
  context_ = *context;
  expires_at_ = expiry(context_.get());
  log_.info("the changed certificates are in force");
  return true;
}

HandshakeFailure explain_handshake(const SSL* ssl) {
  const unsigned long fault = ERR_peek_error();
  const int reason = ERR_GET_REASON(fault);
  const long verified = SSL_get_verify_result(ssl);
  const std::string text = openssl_reason();
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    return {"no-certificate",
            {Code::tls_no_certificate, "the client showed no certificate",
             "Give it the certificate and the key of its kit."}};
  }
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    const std::string why = X509_verify_cert_error_string(verified);
    if (verified == X509_V_ERR_CERT_HAS_EXPIRED || verified == X509_V_ERR_CERT_NOT_YET_VALID) {
      return {"expired",
              {Code::tls_expired, "the client's certificate: " + why,
               "Renew it with 'fedserver cert facility', and check both clocks."}};
    }
    return {"untrusted",
            {Code::tls_untrusted, "the client's certificate: " + why,
             "Give it a kit made with this server's CA."}};
  }
  switch (reason) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
      return {"refused",
              {Code::tls_untrusted, "the client refused the server's certificate: " + text,
               "The client needs this server's CA, and a name that is in its certificate."}};
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_VERSION_TOO_LOW:
      return {"version",
              {Code::tls, "the client speaks no TLS that is allowed here: " + text,
               "TLS 1.2 or 1.3 with an ECDHE cipher is needed."}};
    default:
      break;
  }
  if (fault == 0) return {"ended", {Code::network, "the client went away", ""}};
  return {"other", {Code::tls, text, ""}};
}

}  // namespace fedqueue::http
