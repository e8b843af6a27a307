#include "fedclient/link/faults.h"

#include <curl/curl.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <cctype>

#include "core/base/text.h"
#include "core/protocol/upload.h"

namespace fedqueue {
namespace {

bool says(const std::string& text, std::string_view words) {
  const auto found =
      std::search(text.begin(), text.end(), words.begin(), words.end(), [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) ==
               std::tolower(static_cast<unsigned char>(b));
      });
  return found != text.end();
}

std::string server(const Fault& fault) { return fault.host + ":" + fault.port; }

std::string connecting(const Fault& fault) {
  return "cannot connect to " + server(fault) +
         (fault.proxy.empty() ? "" : " through the proxy " + fault.proxy);
}

Error expired(const Fault& fault) {
  const bool early = fault.peer.verify_error == X509_V_ERR_CERT_NOT_YET_VALID;
  return {Code::tls_expired,
          connecting(fault) + ": the server's certificate " +
              (early ? "is not valid before " + fault.peer.valid_from
                     : "was valid until " + fault.peer.valid_to),
          early ? "Check this machine's clock; otherwise ask the operator to issue the server's "
                  "certificate again."
                : "Ask the operator to renew the server's certificate (fedserver cert server); if "
                  "it is valid, check this machine's clock."};
}

Error untrusted(const Fault& fault) {
  return {Code::tls_untrusted,
          connecting(fault) + ": the server's certificate was issued by '" + fault.peer.issuer +
              "', but the kit trusts only '" + fault.trusted_ca + "'",
          "Use the kit that belongs to this server, or correct the server's address; a proxy that "
          "opens TLS connections must let this one pass."};
}

Error wrong_name(const Fault& fault) {
  return {Code::tls_name,
          connecting(fault) + ": the server's certificate is for " +
              (fault.peer.names.empty() ? "no name at all" : join(fault.peer.names, ", ")) +
              ", and not for '" + fault.host + "'",
          "Use one of these names in the server's URL, or ask the operator for a certificate with "
          "this one (fedserver cert server DIR --host " +
              fault.host + ")."};
}

Error verify_failed(const Fault& fault) {
  switch (fault.peer.verify_error) {
    case X509_V_ERR_CERT_NOT_YET_VALID:
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return expired(fault);
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
    case X509_V_OK:
      return wrong_name(fault);
    case X509_V_ERR_INVALID_PURPOSE:
      return {
          Code::tls,
          connecting(fault) + ": the certificate '" + fault.peer.subject +
              "' is not a server's certificate",
          "Ask the operator to run the server with the certificate of 'fedserver cert server'."};
    default:
      return untrusted(fault);
  }
}

// The server's alert about our own certificate.
Error refused_certificate(const Fault& fault) {
  const std::string ours =
      "this facility's certificate ('" + fault.own_subject + "', " + fault.certificate_path + ")";
  const std::string by = server(fault) + " refuses " + ours;
  const std::string& text = fault.text;
  if (says(text, "certificate required") || says(text, "did not return a certificate")) {
    return {Code::tls_no_certificate,
            server(fault) + " asks for a certificate and got none it could use",
            "Give the kit that the operator issued for this facility (--kit)."};
  }
  if (says(text, "certificate expired")) {
    return {Code::tls_expired, by + ": it was valid until " + fault.own_valid_to,
            "Ask the operator for a new kit (fedserver cert facility)."};
  }
  if (says(text, "certificate revoked")) {
    return {Code::revoked, by + ": it was revoked", "Ask the operator why, and for a new kit."};
  }
  if (says(text, "unknown ca")) {
    return {Code::tls_untrusted,
            by + ": it was issued by '" + fault.own_issuer + "', which the server does not know",
            "Use the kit that belongs to this server."};
  }
  return {Code::tls, by + ": " + text,
          "Use a kit that the operator issued for a facility, as it is."};
}

bool about_our_certificate(const std::string& text) {
  return says(text, "alert") &&
         (says(text, "certificate") || says(text, "unknown ca") || says(text, "access denied"));
}

Error handshake_failed(const Fault& fault) {
  const std::string& text = fault.text;
  if (about_our_certificate(text)) return refused_certificate(fault);
  if (says(text, "wrong version number") || says(text, "packet length too long") ||
      says(text, "http request")) {
    return {
        Code::plaintext, server(fault) + " does not speak TLS: " + text,
        "Check host and port of the server's URL: it must be the port that fedserver listens on."};
  }
  if (says(text, "certificate verify failed")) return verify_failed(fault);
  if (says(text, "SSL_ERROR_SYSCALL") || says(text, "reset by peer") ||
      says(text, "unexpected eof")) {
    return {Code::network, connecting(fault) + ": the connection was cut during the handshake",
            "Look at the server's log; a firewall in between may also do this."};
  }
  return {Code::tls, connecting(fault) + ": the TLS handshake failed: " + text,
          "Both sides need TLS 1.2 or 1.3; see docs/failure-model.md."};
}

Error proxy_refused(const Fault& fault) {
  const std::string proxy = "the proxy " + fault.proxy;
  switch (fault.proxy_status) {
    case 407:
      return {Code::network_proxy, proxy + " asks for a user name and a password (407)",
              "Put them into https_proxy (http://USER:PASSWORD@HOST:PORT) or ask the site."};
    case 403:
      return {Code::network_proxy,
              proxy + " does not allow connections to " + server(fault) + " (403)",
              "Ask the site to allow this destination."};
    case 0:  // not a refusal: a proxy that is down comes back
      return {Code::network, proxy + " cannot be used: " + fault.text,
              "Check https_proxy and all_proxy, or take the server out with no_proxy."};
    default:
      return {fault.proxy_status >= 500 ? Code::network : Code::network_proxy,
              proxy + " could not connect to " + server(fault) + " (" +
                  std::to_string(fault.proxy_status) + ")",
              "Check the server's URL; the proxy may not reach it."};
  }
}

Error not_connected(const Fault& fault) {
  if (!fault.proxy.empty()) return proxy_refused(fault);
  if (says(fault.text, "no route") || says(fault.text, "unreachable")) {
    return {Code::network, connecting(fault) + ": there is no route to it",
            "Compute nodes often reach the outside only through a proxy: set https_proxy."};
  }
  return {Code::network_refused, connecting(fault) + ": nobody listens there",
          "Start the server, or correct host and port of the server's URL."};
}

}  // namespace

std::string without_credentials(std::string text) {
  for (std::size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at + 3)) {
    const std::size_t begin = at + 3;
    const std::size_t end = text.find_first_of("/ '\"\n", begin);
    const std::string_view authority =
        std::string_view(text).substr(begin, end == std::string::npos ? end : end - begin);
    const std::size_t credentials = authority.rfind('@');
    if (credentials != std::string_view::npos) text.erase(begin, credentials + 1);
  }
  return text;
}

Error fault_error(const Fault& original) {
  Fault fault = original;
  fault.text = without_credentials(fault.text);
  switch (fault.curl_code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return {Code::network_name, "the name '" + fault.host + "' does not resolve",
              "Correct the server's URL; where only a proxy reaches the outside, set https_proxy."};
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_PROXY:
      return proxy_refused(fault);
    case CURLE_COULDNT_CONNECT:
      return not_connected(fault);
    case CURLE_OPERATION_TIMEDOUT:
      return {Code::network_timeout, "no answer from " + server(fault) + " in time: " + fault.text,
              "Try again later; a firewall that drops packets looks like this too."};
    case CURLE_PEER_FAILED_VERIFICATION:
      return verify_failed(fault);
    case CURLE_SSL_CONNECT_ERROR:
      return handshake_failed(fault);
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
      return {Code::kit, "the kit cannot be used: " + fault.text,
              "Copy the kit again, whole and unchanged."};
    case CURLE_SEND_FAIL_REWIND:
      return {Code::network, "the connection to " + server(fault) + " was cut while sending", ""};
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ENGINE_NOTFOUND:
      return handshake_failed(fault);
    default:
      break;
  }
  // With TLS 1.3 the server judges our certificate after the handshake: its alert comes with the
  // first bytes that are sent or read.
  if (about_our_certificate(fault.text)) return refused_certificate(fault);
  if (fault.proxy_status >= 400) return proxy_refused(fault);
  return {Code::network, "the connection to " + server(fault) + " was lost: " + fault.text, ""};
}

Error answer_error(int status, const std::string& body) {
  Error error;
  if (Result<Problem> problem = decode<Problem>(body); problem) {
    error = problem->error;
  } else {
    error.message = "the server answered " + std::to_string(status);
    switch (status) {
      case 401:
        error.code = Code::tls_no_certificate;
        break;
      case 403:
        error.code = Code::identity;
        break;
      case 404:
        error.code = Code::not_found;
        break;
      case 409:
        error.code = Code::conflict;
        break;
      case 410:
        error.code = Code::run_finished;
        break;
      case 413:
        error.code = Code::too_large;
        break;
      case 408:
      case 429:
        error.code = Code::try_again;
        break;
      case 507:
        error.code = Code::storage_full;
        break;
      default:
        error.code = status >= 500 ? Code::server_error : Code::refused;
        break;
    }
  }
  if (status >= 500 && !may_pass(error.code)) error.code = Code::server_error;
  // A defect of the server is not one of this program.
  if (error.code == Code::internal) error.code = Code::refused;
  return error;
}

}  // namespace fedqueue
