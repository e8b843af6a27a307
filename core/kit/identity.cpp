#include "core/kit/identity.h"

#include <array>
#include <ctime>

#include "core/base/ids.h"
#include "core/base/text.h"
#include "core/kit/openssl_types.h"

namespace fedqueue {
namespace {

constexpr std::string_view uri_scheme = "fedqueue:";

constexpr struct {
  IdentityKind kind;
  const char* name;
} kinds[] = {{IdentityKind::facility, "facility"},
             {IdentityKind::administrator, "operator"},
             {IdentityKind::observer, "observer"}};

CalendarTime time_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return CalendarTime(std::chrono::seconds(timegm(&parts)));
}

}  // namespace

const char* identity_kind_name(IdentityKind kind) {
  for (const auto& entry : kinds) {
    if (entry.kind == kind) return entry.name;
  }
  return "";
}

std::optional<IdentityKind> identity_kind_named(std::string_view name) {
  for (const auto& entry : kinds) {
    if (name == entry.name) return entry.kind;
  }
  return std::nullopt;
}

std::string identity_uri(const Identity& identity) {
  return std::string(uri_scheme) + identity_kind_name(identity.kind) + ":" + identity.name;
}

Result<Identity> parse_identity_uri(std::string_view uri) {
  const std::vector<std::string> parts = split(uri, ':');
  if (parts.size() == 3 && parts[0] == "fedqueue" && is_name(parts[2])) {
    if (const auto kind = identity_kind_named(parts[1])) return Identity{*kind, parts[2]};
  }
  return Error{Code::identity,
               "'" + std::string(uri) + "' is not an identity of the form fedqueue:KIND:NAME",
               "Use a certificate issued by 'fedserver cert'."};
}

Result<Identity> identity_of(const X509* certificate) {
  const GeneralNamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::optional<std::string> found;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    // With its length, not as a C string: a zero byte must not hide what follows it.
    const ASN1_STRING* text = name->d.uniformResourceIdentifier;
    const std::string uri(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                          static_cast<std::size_t>(ASN1_STRING_length(text)));
    if (!uri.starts_with(uri_scheme)) continue;
    if (found) {
      return Error{Code::identity, "the certificate names two identities",
                   "Use a certificate issued by 'fedserver cert'."};
    }
    found = uri;
  }
  if (!found) {
    return Error{Code::identity, "the certificate names no FedQueue identity",
                 "Use a certificate issued by 'fedserver cert'."};
  }
  return parse_identity_uri(*found);
}

std::string fingerprint_of(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (X509_digest(certificate, EVP_sha256(), digest.data(), &length) != 1) return "";
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    text += digits[digest[i] >> 4];
    text += digits[digest[i] & 15];
  }
  return text;
}

CalendarTime not_before_of(const X509* certificate) {
  return time_of(X509_get0_notBefore(certificate));
}

CalendarTime not_after_of(const X509* certificate) {
  return time_of(X509_get0_notAfter(certificate));
}

std::string calendar_text(CalendarTime time) {
  const std::time_t seconds = time.time_since_epoch().count();
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace fedqueue
