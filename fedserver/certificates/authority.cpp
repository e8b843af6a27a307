#include "fedserver/certificates/authority.h"

#include <arpa/inet.h>
#include <openssl/err.h>

#include <algorithm>
#include <cctype>

#include "core/base/ids.h"
#include "core/base/text.h"
#include "core/kit/pem.h"

namespace fedqueue {
namespace {

// A certificate is valid a little before it was made, since the clocks of two sites differ.
constexpr std::chrono::minutes clock_skew_max{10};

Error openssl_error(const std::string& attempted) {
  return {Code::internal, attempted + ": " + openssl_reason(), ""};
}

bool set_serial(X509* certificate) {
  const BigNumberPtr number(BN_new());
  return number && BN_rand(number.get(), 128, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool set_time(ASN1_TIME* field, CalendarTime time) {
  return ASN1_TIME_set(field, time.time_since_epoch().count()) != nullptr;
}

bool set_common_name(X509* certificate, const std::string& name) {
  return X509_NAME_add_entry_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                    MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(name.data()),
                                    static_cast<int>(name.size()), -1, 0) == 1;
}

// The value is a constant of this file, never text from outside.
bool add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

// Names go in as structures: in OpenSSL's text form a comma would start another name.
bool append_name(GENERAL_NAMES* names, int type, const std::string& text) {
  GENERAL_NAME* name = GENERAL_NAME_new();
  ASN1_IA5STRING* value = ASN1_IA5STRING_new();
  if (name == nullptr || value == nullptr ||
      ASN1_STRING_set(value, text.data(), static_cast<int>(text.size())) != 1) {
    GENERAL_NAME_free(name);
    ASN1_IA5STRING_free(value);
    return false;
  }
  GENERAL_NAME_set0_value(name, type, value);
  return sk_GENERAL_NAME_push(names, name) > 0;
}

bool append_address(GENERAL_NAMES* names, const std::string& text) {
  GENERAL_NAME* name = GENERAL_NAME_new();
  ASN1_OCTET_STRING* value = a2i_IPADDRESS(text.c_str());
  if (name == nullptr || value == nullptr) {
    GENERAL_NAME_free(name);
    ASN1_OCTET_STRING_free(value);
    return false;
  }
  GENERAL_NAME_set0_value(name, GEN_IPADD, value);
  return sk_GENERAL_NAME_push(names, name) > 0;
}

bool add_names(X509* certificate, GENERAL_NAMES* names) {
  return X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
}

bool is_address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

bool is_host_name(std::string_view text) {
  if (text.size() > 253) return false;
  if (text.starts_with("*.")) text.remove_prefix(2);
  for (const std::string& label : split(text, '.')) {
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-') {
      return false;
    }
    if (!std::all_of(label.begin(), label.end(), [](unsigned char c) {
          return std::isalnum(c) != 0 || c == '-' || c == '_';
        })) {
      return false;
    }
  }
  return true;
}

// What all certificates have in common; the issuer is the certificate itself for a CA.
Result<CertificatePtr> prepare(EVP_PKEY* key, X509* issuer, const std::string& common_name,
                               CalendarTime not_before, CalendarTime not_after) {
  CertificatePtr certificate(X509_new());
  if (!certificate || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      !set_serial(certificate.get()) ||
      !set_time(X509_getm_notBefore(certificate.get()), not_before) ||
      !set_time(X509_getm_notAfter(certificate.get()), not_after) ||
      !set_common_name(certificate.get(), common_name) ||
      X509_set_pubkey(certificate.get(), key) != 1 ||
      X509_set_issuer_name(certificate.get(),
                           X509_get_subject_name(issuer ? issuer : certificate.get())) != 1) {
    return openssl_error("prepare a certificate");
  }
  return certificate;
}

bool add_leaf_extensions(X509* certificate, X509* issuer, const char* extended_key_usage) {
  return add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
         add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature") &&
         add_extension(certificate, issuer, NID_ext_key_usage, extended_key_usage) &&
         add_extension(certificate, issuer, NID_subject_key_identifier, "hash") &&
         add_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always");
}

// No certificate outlives the CA: it would look valid and be refused.
Result<CalendarTime> not_after_for(const X509* ca, const Validity& validity) {
  const CalendarTime ca_end = not_after_of(ca);
  if (ca_end <= validity.now) {
    return Error{Code::tls_expired, "the CA expired on " + calendar_text(ca_end),
                 "Make a new run with 'fedserver init'; its facilities need new kits."};
  }
  return std::min<CalendarTime>(validity.now + validity.lifetime, ca_end);
}

}  // namespace

Result<Authority> Authority::create(const std::filesystem::path& directory,
                                    const std::string& run_name, const Validity& validity) {
  const std::filesystem::path certificate_file = directory / "ca.crt";
  const std::filesystem::path key_file = directory / "ca.key";
  for (const std::filesystem::path& file : {certificate_file, key_file}) {
    if (std::filesystem::exists(file)) {
      return Error{Code::conflict,
                   "there is a certificate authority already: '" + file.string() + "'",
                   "Keep it: every kit of this run depends on it."};
    }
  }
  if (Status made = make_private_directory(directory); !made) return made.error();
  Result<KeyPtr> key = generate_key();
  if (!key) return key.error();
  Result<CertificatePtr> certificate =
      prepare(key->get(), nullptr, "FedQueue CA of run " + run_name.substr(0, 40),
              validity.now - clock_skew_max, validity.now + validity.lifetime);
  if (!certificate) return certificate.error();
  X509* ca = certificate->get();
  if (!add_extension(ca, ca, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(ca, ca, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(ca, ca, NID_subject_key_identifier, "hash") ||
      !add_extension(ca, ca, NID_authority_key_identifier, "keyid:always") ||
      X509_sign(ca, key->get(), EVP_sha256()) == 0) {
    return openssl_error("make the certificate authority");
  }
  if (Status written = write_private_key(key_file, key->get()); !written) return written.error();
  if (Status written = write_certificate(certificate_file, ca); !written) return written.error();
  return Authority(std::move(*certificate), std::move(*key), certificate_file);
}

Result<Authority> Authority::open(const std::filesystem::path& directory) {
  const std::filesystem::path certificate_file = directory / "ca.crt";
  Result<CertificatePtr> certificate = read_certificate(certificate_file);
  if (!certificate) return within("open the certificate authority", certificate.error());
  Result<KeyPtr> key = read_private_key(directory / "ca.key");
  if (!key) return within("open the certificate authority", key.error());
  if (X509_check_private_key(certificate->get(), key->get()) != 1) {
    ERR_clear_error();
    return Error{Code::kit,
                 "'" + (directory / "ca.key").string() + "' is not the key of '" +
                     certificate_file.string() + "'",
                 "Restore both files from the same backup."};
  }
  return Authority(std::move(*certificate), std::move(*key), certificate_file);
}

Result<IssuedCertificate> Authority::issue_server(const std::vector<std::string>& host_names,
                                                  const std::vector<std::string>& addresses,
                                                  EVP_PKEY* key, const Validity& validity) const {
  const GeneralNamesPtr names(sk_GENERAL_NAME_new_null());
  bool added = names != nullptr;
  for (const std::string& host : host_names) {
    if (is_address(host)) {
      added = added && append_address(names.get(), host);
    } else if (is_host_name(host)) {
      added = added && append_name(names.get(), GEN_DNS, host);
    } else {
      return Error{Code::usage, "'" + host + "' is not a host name",
                   "Give names as in server.example.org, without scheme, port or path."};
    }
  }
  for (const std::string& address : addresses) {
    if (!is_address(address)) {
      return Error{Code::usage, "'" + address + "' is not an IP address",
                   "Give addresses as in 192.0.2.7 or 2001:db8::7, without brackets or port."};
    }
    added = added && append_address(names.get(), address);
  }
  if (host_names.empty() && addresses.empty()) {
    return Error{Code::usage, "a server certificate needs a host name or an address",
                 "Name what clients will connect to: --host NAME or --ip ADDRESS."};
  }
  const Result<CalendarTime> not_after = not_after_for(certificate_.get(), validity);
  if (!not_after) return not_after.error();
  Result<CertificatePtr> certificate =
      prepare(key, certificate_.get(), "fedserver", validity.now - clock_skew_max, *not_after);
  if (!certificate) return certificate.error();
  if (!added ||
      !add_leaf_extensions(certificate->get(), certificate_.get(), "critical,serverAuth") ||
      !add_names(certificate->get(), names.get())) {
    return openssl_error("make the server's certificate");
  }
  return finish(std::move(*certificate));
}

Result<IssuedCertificate> Authority::issue_client(const Identity& identity, EVP_PKEY* key,
                                                  const Validity& validity) const {
  if (!is_name(identity.name)) {
    return Error{Code::usage,
                 "'" + identity.name + "' cannot be a name; it must be 1 to 63 of a-z, 0-9 and -",
                 ""};
  }
  const Result<CalendarTime> not_after = not_after_for(certificate_.get(), validity);
  if (!not_after) return not_after.error();
  Result<CertificatePtr> certificate =
      prepare(key, certificate_.get(), identity.name, validity.now - clock_skew_max, *not_after);
  if (!certificate) return certificate.error();
  const GeneralNamesPtr names(sk_GENERAL_NAME_new_null());
  if (!names || !append_name(names.get(), GEN_URI, identity_uri(identity)) ||
      !add_leaf_extensions(certificate->get(), certificate_.get(), "critical,clientAuth") ||
      !add_names(certificate->get(), names.get())) {
    return openssl_error("make the certificate of " + identity.name);
  }
  return finish(std::move(*certificate));
}

Result<IssuedCertificate> Authority::finish(CertificatePtr certificate) const {
  if (X509_sign(certificate.get(), key_.get(), EVP_sha256()) == 0) {
    return openssl_error("sign a certificate");
  }
  const BigNumberPtr serial(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.get()), nullptr));
  char* digits = serial ? BN_bn2hex(serial.get()) : nullptr;
  if (digits == nullptr) return openssl_error("read a serial number");
  IssuedCertificate issued;
  issued.serial = digits;
  OPENSSL_free(digits);
  std::transform(issued.serial.begin(), issued.serial.end(), issued.serial.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  issued.fingerprint = fingerprint_of(certificate.get());
  issued.not_before = not_before_of(certificate.get());
  issued.not_after = not_after_of(certificate.get());
  issued.certificate = std::move(certificate);
  return issued;
}

}  // namespace fedqueue
