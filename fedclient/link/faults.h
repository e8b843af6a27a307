// From what libcurl and OpenSSL say about a failed connection to one Error: what was expected, what
// was got, and the cure.
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/protocol/messages.h"

namespace fedqueue {

// What was seen of the server's certificate during the handshake.
struct PeerCertificate {
  int verify_error = 0;  // X509_V_ERR_…, 0 if it passed
  std::string subject;
  std::string issuer;
  std::string valid_from;
  std::string valid_to;
  std::vector<std::string> names;  // SAN: DNS names and addresses
};

// Everything that is known when a request did not get an answer.
struct Fault {
  int curl_code = 0;
  std::string text;  // libcurl's own words
  std::string host;
  std::string port;
  std::string proxy;       // host:port of the proxy in use; empty for none
  int proxy_status = 0;    // the proxy's answer to CONNECT, 0 if none
  PeerCertificate peer;    // the server's certificate
  std::string trusted_ca;  // subject of the kit's CA
  std::string own_subject;
  std::string own_issuer;
  std::string own_valid_to;
  std::string certificate_path;
};

[[nodiscard]] Error fault_error(const Fault& fault);

// The error behind an answer of 3xx, 4xx or 5xx: the problem document's own, or one made from the
// status if the body is none. A 5xx always has a code that may pass.
[[nodiscard]] Error answer_error(int status, const std::string& body);

// The text with `user:password@` taken out of every URL in it.
[[nodiscard]] std::string without_credentials(std::string text);

}  // namespace fedqueue
