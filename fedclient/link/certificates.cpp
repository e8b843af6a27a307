#include "fedclient/link/certificates.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstdio>

#include "core/kit/openssl_types.h"
#include "core/kit/pem.h"

namespace fedqueue {
namespace {

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

std::string name_text(const X509_NAME* name) {
  const BioPtr out(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
  return text_of(out.get());
}

std::string time_text(const ASN1_TIME* time) {
  struct tm fields {};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return "an unreadable date";
  char text[96];
  std::snprintf(text, sizeof text, "%04d-%02d-%02d %02d:%02d UTC", fields.tm_year + 1900,
                fields.tm_mon + 1, fields.tm_mday, fields.tm_hour, fields.tm_min);
  return text;
}

std::string address_text(const ASN1_OCTET_STRING* address) {
  const unsigned char* byte = ASN1_STRING_get0_data(address);
  char text[64] = {};
  if (ASN1_STRING_length(address) == 4) {
    std::snprintf(text, sizeof text, "%d.%d.%d.%d", byte[0], byte[1], byte[2], byte[3]);
  } else if (ASN1_STRING_length(address) == 16) {
    int at = 0;
    for (int i = 0; i < 16; i += 2) {
      at += std::snprintf(text + at, sizeof text - static_cast<std::size_t>(at), "%s%x",
                          i == 0 ? "" : ":", byte[i] << 8 | byte[i + 1]);
    }
  }
  return text;
}

std::vector<std::string> san_names(X509* certificate) {
  std::vector<std::string> names;
  auto* list = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(list); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(list, i);
    if (name->type == GEN_DNS) {
      names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                         static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      names.push_back(address_text(name->d.iPAddress));
    }
  }
  GENERAL_NAMES_free(list);
  return names;
}

int watch_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

int note_certificate(int passed, X509_STORE_CTX* store) {
  auto* ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* peer =
      static_cast<PeerCertificate*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), watch_index()));
  X509* certificate = X509_STORE_CTX_get_current_cert(store);
  if (peer == nullptr || certificate == nullptr) return passed;
  const bool leaf = X509_STORE_CTX_get_error_depth(store) == 0;
  if (passed != 1 && peer->verify_error == 0) {
    peer->verify_error = X509_STORE_CTX_get_error(store);
  }
  if (passed != 1 || leaf) {
    peer->subject = name_text(X509_get_subject_name(certificate));
    peer->issuer = name_text(X509_get_issuer_name(certificate));
    peer->valid_from = time_text(X509_get0_notBefore(certificate));
    peer->valid_to = time_text(X509_get0_notAfter(certificate));
  }
  if (leaf) peer->names = san_names(certificate);
  return passed;
}

}  // namespace

Result<KitCertificates> check_kit(const std::filesystem::path& ca_path,
                                  const std::filesystem::path& certificate_path,
                                  const std::filesystem::path& key_path) {
  const Result<CertificatePtr> ca = read_certificate(ca_path);
  if (!ca) return ca.error();
  const Result<CertificatePtr> own = read_certificate(certificate_path);
  if (!own) return own.error();
  const Result<KeyPtr> key = read_private_key(key_path);
  if (!key) return key.error();
  if (X509_check_private_key(own->get(), key->get()) != 1) {
    ERR_clear_error();
    return Error{
        Code::kit,
        "'" + key_path.string() + "' is not the key of '" + certificate_path.string() + "'",
        "Copy the whole kit again, or name its folder with --kit."};
  }
  return KitCertificates{
      name_text(X509_get_subject_name(ca->get())), name_text(X509_get_subject_name(own->get())),
      name_text(X509_get_issuer_name(own->get())), time_text(X509_get0_notAfter(own->get()))};
}

void watch_handshakes(void* context, PeerCertificate* peer) {
  auto* ssl_context = static_cast<SSL_CTX*>(context);
  SSL_CTX_set_ex_data(ssl_context, watch_index(), peer);
  SSL_CTX_set_verify(ssl_context, SSL_VERIFY_PEER, note_certificate);
}

}  // namespace fedqueue
