#include "core/base/error.h"

#include <cerrno>
#include <cstring>

namespace fedqueue {
namespace {

struct CodeName {
  Code code;
  const char* name;
};

constexpr CodeName code_names[] = {
    {Code::usage, "usage"},
    {Code::internal, "internal"},
    {Code::network, "network"},
    {Code::network_name, "network-name"},
    {Code::network_refused, "network-refused"},
    {Code::network_timeout, "network-timeout"},
    {Code::network_proxy, "network-proxy"},
    {Code::server_error, "server-error"},
    {Code::refused, "refused"},
    {Code::plaintext, "plaintext"},
    {Code::tls, "tls"},
    {Code::tls_expired, "tls-expired"},
    {Code::tls_untrusted, "tls-untrusted"},
    {Code::tls_name, "tls-name"},
    {Code::tls_no_certificate, "tls-no-certificate"},
    {Code::identity, "identity"},
    {Code::revoked, "revoked"},
    {Code::kit, "kit"},
    {Code::scheduler, "scheduler"},
    {Code::scheduler_missing, "scheduler-missing"},
    {Code::scheduler_refused, "scheduler-refused"},
    {Code::scheduler_limit, "scheduler-limit"},
    {Code::launch, "launch"},
    {Code::rank_lost, "rank-lost"},
    {Code::device, "device"},
    {Code::memory, "memory"},
    {Code::data, "data"},
    {Code::model_format, "model-format"},
    {Code::model_mismatch, "model-mismatch"},
    {Code::not_finite, "not-finite"},
    {Code::wrong_base, "wrong-base"},
    {Code::not_found, "not-found"},
    {Code::conflict, "conflict"},
    {Code::too_large, "too-large"},
    {Code::aggregation, "aggregation"},
    {Code::journal, "journal"},
    {Code::storage, "storage"},
    {Code::storage_full, "storage-full"},
    {Code::already_running, "already-running"},
    {Code::run_finished, "run-finished"},
    {Code::try_again, "try-again"},
};

}  // namespace

const char* code_name(Code code) {
  for (const CodeName& entry : code_names) {
    if (entry.code == code) return entry.name;
  }
  return "internal";
}

Code code_named(const std::string& name) {
  for (const CodeName& entry : code_names) {
    if (name == entry.name) return entry.code;
  }
  return Code::internal;
}

Error storage_error(const std::string& attempted, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  return {full ? Code::storage_full : Code::storage, attempted + ": " + std::strerror(error_number),
          full ? "Free some space on that file system and start again; nothing was lost." : ""};
}

}  // namespace fedqueue
