// The folder a facility, an operator or an observer gets to reach the server:
//
//   ca.crt        whom to trust          client.key    0600, never leaves its owner
//   client.crt    who we are             facility.ini  server, run and name (operator.ini, …)
//   README.txt
//
// load_kit() finds every fault that would otherwise show as an obscure handshake failure, before
// anything is sent, and says what to do about it. It proves nothing to the server, which judges for
// itself.
//
// Thread safety: a Kit is a value.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/kit/calendar.h"
#include "core/kit/identity.h"

namespace fedqueue {

constexpr std::chrono::days certificate_warning_days{30};

struct Kit {
  std::filesystem::path directory;
  std::filesystem::path ca_file;
  std::filesystem::path certificate_file;
  std::filesystem::path key_file;
  Identity identity;
  std::string fingerprint;
  CalendarTime not_after;
  std::string server_url;  // https://host:port; empty if the kit does not say
  std::string run;         // empty if the kit does not say
  // For the log or the terminal: the certificate is about to expire.
  std::vector<std::string> notes;
};

// What the caller needs; the time is a parameter for tests.
struct KitDemand {
  std::optional<IdentityKind> kind = {};  // any if unset
  CalendarTime now = calendar_now();
};

// Code::kit for a missing, unreadable or mismatched file, tls_expired, tls_untrusted, or identity
// when the kit is for another kind of user.
[[nodiscard]] Result<Kit> load_kit(const std::filesystem::path& directory,
                                   const KitDemand& demand = {});

// Where the kit's settings are: facility.ini, operator.ini or observer.ini.
[[nodiscard]] std::string kit_settings_file(IdentityKind kind);

// "the certificate of site-a expires on … (in 12 days)" if that is near; empty otherwise.
[[nodiscard]] std::string expiry_note(const std::string& name, CalendarTime not_after,
                                      CalendarTime now);

}  // namespace fedqueue
