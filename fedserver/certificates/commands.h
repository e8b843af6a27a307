// What `fedserver cert` and `fedserver init` do with certificates, apart from reading the command
// line.
//
//   RUN/ca/       ca.crt ca.key           may be kept elsewhere once the kits are made
//   RUN/server/   server.crt server.key certificates.sqlite
//   RUN/facilities/NAME/  RUN/operators/NAME/  RUN/observers/NAME/    kits, to be handed over
//
// Each certificate is written to the registry before anybody can hold it: after a crash in between
// there may be a record of a certificate nobody has, and never a certificate without a record.
//
// A running server need not be told: it looks into the registry at every request. A new server
// certificate is read by the server when its file changes.
//
// Not thread-safe; two processes may work on one run at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/kit/calendar.h"
#include "core/kit/identity.h"
#include "fedserver/certificates/report.h"

namespace fedqueue {

struct CertificateFiles {
  std::filesystem::path run_directory;

  [[nodiscard]] std::filesystem::path authority() const { return run_directory / "ca"; }
  [[nodiscard]] std::filesystem::path server() const { return run_directory / "server"; }
  [[nodiscard]] std::filesystem::path server_certificate() const { return server() / "server.crt"; }
  [[nodiscard]] std::filesystem::path server_key() const { return server() / "server.key"; }
  [[nodiscard]] std::filesystem::path registry() const { return server() / "certificates.sqlite"; }
  // Where a kit is written unless the user says otherwise.
  [[nodiscard]] std::filesystem::path kit(const Identity& identity) const;
};

// The run that all commands work on.
struct CertificateRun {
  CertificateFiles files;
  std::string run;         // for kits
  std::string server_url;  // for kits; may be empty
  CalendarTime now = calendar_now();
};

struct ServerCertificateOrder {
  std::vector<std::string> host_names;
  std::vector<std::string> addresses;
  std::chrono::days lifetime{365};
};

struct ClientCertificateOrder {
  Identity identity;
  std::optional<std::int64_t> samples = {};  // of a facility, at its first certificate
  std::filesystem::path output = {};         // the kit's folder; files.kit() if empty
  std::filesystem::path request_file = {};   // a facility's own client.csr
  std::chrono::days lifetime{365};
};

struct RenewalOrder {
  std::string name;
  std::string kind = {};  // needed only if the name has certificates of several kinds
  std::filesystem::path output = {};
  std::filesystem::path request_file = {};
  std::chrono::days lifetime{365};
  bool revoke_old = false;
};

// Makes the authority, the server's certificate and an empty registry.
Result<CertificateReport> create_certificates(const CertificateRun& run,
                                              const ServerCertificateOrder& order);

// A new key and certificate for the server; the old certificate is not revoked.
Result<CertificateReport> issue_server_certificate(const CertificateRun& run,
                                                   const ServerCertificateOrder& order);

// Enrols a facility if it is new, and writes a kit. Conflict if the identity has a valid
// certificate.
Result<CertificateReport> issue_client_certificate(const CertificateRun& run,
                                                   const ClientCertificateOrder& order);

// The same identity with a new key; the old certificate goes on until it expires, unless revoked.
Result<CertificateReport> renew_client_certificate(const CertificateRun& run,
                                                   const RenewalOrder& order);

Result<CertificateReport> revoke_certificates(const CertificateRun& run,
                                              const std::string& name_or_fingerprint,
                                              const std::string& kind);

Result<CertificateReport> change_facility_samples(const CertificateRun& run,
                                                  const std::string& facility,
                                                  std::int64_t samples);

Result<CertificateReport> list_certificates(const CertificateRun& run);

}  // namespace fedqueue
