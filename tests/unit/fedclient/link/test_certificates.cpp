#include "tests/unit/fedclient/link/test_certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdio>

#include "core/base/assert.h"

namespace fedqueue::test {
namespace {

void add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  FEDQUEUE_ASSERT(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Identity make(const Identity* authority, const Wanted& wanted) {
  static std::atomic<long> serial = 1;
  Identity made;
  made.key.reset(EVP_EC_gen("P-256"), EVP_PKEY_free);
  made.certificate.reset(X509_new(), X509_free);
  X509* certificate = made.certificate.get();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), wanted.valid_from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate), wanted.valid_to_s);
  X509_set_pubkey(certificate, made.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(wanted.common_name.c_str()), -1,
                             -1, 0);
  X509* issuer = authority != nullptr ? authority->certificate.get() : certificate;
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  add_extension(certificate, issuer, NID_basic_constraints,
                authority == nullptr ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE");
  if (!wanted.names.empty()) {
    add_extension(certificate, issuer, NID_subject_alt_name, wanted.names);
  }
  if (!wanted.extended_usage.empty()) {
    add_extension(certificate, issuer, NID_ext_key_usage, wanted.extended_usage);
  }
  EVP_PKEY* signer = authority != nullptr ? authority->key.get() : made.key.get();
  FEDQUEUE_ASSERT(X509_sign(certificate, signer, EVP_sha256()) > 0);
  return made;
}

}  // namespace

Identity make_authority(const std::string& common_name) {
  Wanted wanted;
  wanted.common_name = common_name;
  return make(nullptr, wanted);
}

Identity make_certificate(const Identity& authority, const Wanted& wanted) {
  return make(&authority, wanted);
}

void write_certificate(const Identity& identity, const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  FEDQUEUE_ASSERT(file != nullptr);
  PEM_write_X509(file, identity.certificate.get());
  std::fclose(file);
}

void write_key(const Identity& identity, const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  FEDQUEUE_ASSERT(file != nullptr);
  ::chmod(path.c_str(), 0600);
  PEM_write_PrivateKey(file, identity.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
}

}  // namespace fedqueue::test
