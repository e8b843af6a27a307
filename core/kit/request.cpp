#include "core/kit/request.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "core/base/file.h"
#include "core/base/ids.h"
#include "core/kit/pem.h"

namespace fedqueue {
namespace {

std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

Error openssl_error() {
  return {Code::internal, "make a certificate request: " + openssl_reason(), ""};
}

bool strong_enough(EVP_PKEY* key) {
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
      return EVP_PKEY_get_bits(key) >= 2048;
    case EVP_PKEY_EC:
      return EVP_PKEY_get_bits(key) >= 256;
    case EVP_PKEY_ED25519:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<std::filesystem::path> create_request(const std::filesystem::path& directory,
                                             const std::string& name) {
  if (!is_name(name)) {
    return Error{Code::usage,
                 "'" + name + "' cannot be a name; it must be 1 to 63 of a-z, 0-9 and -", ""};
  }
  if (Status made = make_private_directory(directory); !made) return made.error();
  const std::filesystem::path key_path = directory / "client.key";
  const bool exists = std::filesystem::exists(key_path);
  Result<KeyPtr> key = exists ? read_private_key(key_path) : generate_key();
  if (!key) return key.error();
  if (!exists) {
    if (Status written = write_private_key(key_path, key->get()); !written) return written.error();
  }

  const CertificateRequestPtr request(X509_REQ_new());
  X509_NAME* subject = request ? X509_REQ_get_subject_name(request.get()) : nullptr;
  if (subject == nullptr || X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
      X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.data()),
                                 static_cast<int>(name.size()), -1, 0) != 1 ||
      X509_REQ_set_pubkey(request.get(), key->get()) != 1 ||
      X509_REQ_sign(request.get(), key->get(), EVP_sha256()) == 0) {
    return openssl_error();
  }
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509_REQ(bio.get(), request.get()) != 1) return openssl_error();
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio.get(), &data);
  const std::filesystem::path path = directory / "client.csr";
  if (Status written =
          write_file_atomic(path, std::string_view(data, static_cast<std::size_t>(length)));
      !written) {
    return written.error();
  }
  return path;
}

Result<KeyPtr> read_request(const std::filesystem::path& path) {
  Result<std::string> text = read_file(path, 1u << 16);
  if (!text) return within("read the certificate request", text.error());
  const BioPtr bio(BIO_new_mem_buf(text->data(), static_cast<int>(text->size())));
  const CertificateRequestPtr request(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  const std::string cure = "Ask the facility for the client.csr that 'fedclient' made there.";
  if (!request) {
    return Error{Code::usage, quoted(path) + " does not hold a certificate request in PEM form",
                 cure};
  }
  KeyPtr key(X509_REQ_get_pubkey(request.get()));
  if (!key || X509_REQ_verify(request.get(), key.get()) != 1) {
    ERR_clear_error();
    return Error{Code::identity,
                 "the request " + quoted(path) +
                     " is not signed by its own key, so its sender may not hold that key",
                 cure};
  }
  if (!strong_enough(key.get())) {
    return Error{Code::identity,
                 "the key in " + quoted(path) +
                     " is too weak: it must be RSA of at least 2048 bits, EC of at least 256 bits "
                     "or Ed25519",
                 cure};
  }
  return key;
}

}  // namespace fedqueue
