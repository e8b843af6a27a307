// What went wrong, for a person and for a program.
//
// An error's code is also the exit code of the command that failed, so that a batch script and a
// person read the same number; docs/exit-codes.md lists them. The message is one sentence: what was
// attempted, on what, why it failed. The cure says what to do; it may be empty.
#pragma once

#include <string>
#include <utility>

namespace fedqueue {

enum class Code : int {
  usage = 2,             // unknown option, bad value, bad configuration
  internal = 9,          // a defect of this program
  network = 10,          // the peer went away or answered nonsense
  network_name = 11,     // the host name does not resolve
  network_refused = 12,  // nobody listens
  network_timeout = 13,  // no answer in time
  network_proxy = 14,    // the proxy refused: no waiting cures it
  server_error = 15,     // the server answered 5xx
  refused = 16,          // the server answered 4xx: this request can never succeed
  plaintext = 17,        // one side speaks TLS and the other does not
  tls = 20,              // the handshake failed for another reason
  tls_expired = 21,      // a certificate is expired or not valid yet
  tls_untrusted = 22,    // a certificate of another CA
  tls_name = 23,         // the server's certificate is for another name
  tls_no_certificate = 24,
  identity = 25,  // the certificate is good, but not for this action
  revoked = 26,
  kit = 27,        // a kit's file is missing, unreadable, too open, or of another kind
  scheduler = 30,  // a scheduler command failed
  scheduler_missing = 31,
  scheduler_refused = 32,  // the job can never be accepted as asked for
  scheduler_limit = 33,    // not now: a limit of the site
  launch = 40,             // ranks and tasks do not match, the launcher is wrong
  rank_lost = 41,          // a rank died or stalled
  device = 42,             // GPU missing or shared by two ranks
  memory = 43,             // main or GPU memory is used up
  data = 50,               // the dataset is missing, broken or empty
  model_format = 51,       // not a valid safetensors file
  model_mismatch = 52,     // another structure than the run's model
  not_finite = 53,         // NaN or Inf
  wrong_base = 54,         // an update against a version the server cannot use
  not_found = 55,
  conflict = 56,  // a second, different answer to the same question
  too_large = 57,
  aggregation = 60,
  journal = 61,
  storage = 62,       // a file could not be read or written
  storage_full = 63,  // disk or quota full
  already_running = 64,
  run_finished = 65,
  try_again = 75,  // nothing is wrong; come back later
};

struct Error {
  Code code = Code::internal;
  std::string message;
  std::string cure;
};

// The same failure seen from one level up: "publish round 7: cannot write …".
[[nodiscard]] inline Error within(const std::string& attempted, Error error) {
  error.message = attempted + ": " + error.message;
  return error;
}

[[nodiscard]] inline int exit_code(const Error& error) { return static_cast<int>(error.code); }

// The short word for a code, used in logs, metrics and problem documents.
[[nodiscard]] const char* code_name(Code code);

// The code of that name; `internal` if there is none.
[[nodiscard]] Code code_named(const std::string& name);

// An error made from errno: storage_full for ENOSPC and EDQUOT, storage otherwise.
[[nodiscard]] Error storage_error(const std::string& attempted, int error_number);

}  // namespace fedqueue
