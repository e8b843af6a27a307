#include "core/kit/pem.h"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/base/file.h"

namespace fedqueue {
namespace {

constexpr std::size_t pem_bytes_max = 1u << 16;

std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

Error openssl_error(const std::string& attempted) {
  return {Code::internal, attempted + ": " + openssl_reason(), ""};
}

// Never asks on a terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

Result<std::string> read_pem(const std::filesystem::path& path) {
  Result<std::string> text = read_file(path, pem_bytes_max);
  if (text) return text;
  return Error{Code::kit, text.error().message, text.error().cure};
}

std::string content_of(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<std::size_t>(length));
}

Status check_private(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return Error{Code::kit, "read the key " + quoted(path) + ": " + std::strerror(errno), ""};
  }
  if ((status.st_mode & 077) == 0) return {};
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(status.st_mode & 07777));
  return Error{Code::kit,
               "the key " + quoted(path) + " can be read by others: its mode is " + mode +
                   ", it must be 0600",
               "chmod 600 " + path.string()};
}

}  // namespace

std::string openssl_reason() {
  std::string reason = "OpenSSL gave no reason";
  while (const unsigned long code = ERR_get_error()) {
    const char* text = ERR_reason_error_string(code);
    if (text != nullptr) reason = text;
  }
  return reason;
}

Result<KeyPtr> generate_key() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("make a key");
  return key;
}

Result<KeyPtr> read_private_key(const std::filesystem::path& path) {
  if (Status checked = check_private(path); !checked) return checked.error();
  Result<std::string> text = read_pem(path);
  if (!text) return text.error();
  const BioPtr bio(BIO_new_mem_buf(text->data(), static_cast<int>(text->size())));
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  OPENSSL_cleanse(text->data(), text->size());
  ERR_clear_error();
  if (key) return key;
  return Error{Code::kit, quoted(path) + " does not hold a private key in PEM form", ""};
}

Result<CertificatePtr> read_certificate(const std::filesystem::path& path) {
  Result<std::string> text = read_pem(path);
  if (!text) return text.error();
  const BioPtr bio(BIO_new_mem_buf(text->data(), static_cast<int>(text->size())));
  CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (certificate) return certificate;
  return Error{Code::kit, quoted(path) + " does not hold a certificate in PEM form", ""};
}

Result<std::string> private_key_pem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_secmem()));
  if (!bio ||
      PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return openssl_error("write a key as PEM");
  }
  return content_of(bio.get());
}

Result<std::string> certificate_pem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return openssl_error("write a certificate as PEM");
  }
  return content_of(bio.get());
}

Status write_private_key(const std::filesystem::path& path, EVP_PKEY* key) {
  Result<std::string> text = private_key_pem(key);
  if (!text) return text.error();
  const Status written = write_file_atomic(path, *text, 0600);
  OPENSSL_cleanse(text->data(), text->size());
  return written;
}

Status write_certificate(const std::filesystem::path& path, X509* certificate) {
  Result<std::string> text = certificate_pem(certificate);
  if (!text) return text.error();
  return write_file_atomic(path, *text, 0644);
}

Status make_private_directory(const std::filesystem::path& directory) {
  std::error_code error;
  if (std::filesystem::is_directory(directory, error)) return {};
  const std::filesystem::path parent = directory.parent_path();
  if (!parent.empty() && parent != directory) {
    if (Status made = make_private_directory(parent); !made) return made;
  }
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return storage_error("make the folder " + quoted(directory), errno);
}

}  // namespace fedqueue
