#include "core/base/digest.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

std::string to_hex(const unsigned char* bytes, std::size_t size) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * size);
  for (std::size_t i = 0; i < size; ++i) {
    text.push_back(digits[bytes[i] >> 4]);
    text.push_back(digits[bytes[i] & 15]);
  }
  return text;
}

}  // namespace

struct Xxh128::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    FEDQUEUE_ASSERT(xxh != nullptr);
    XXH3_128bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
};

Xxh128::Xxh128() : state_(std::make_unique<State>()) {}
Xxh128::~Xxh128() = default;
Xxh128::Xxh128(Xxh128&&) noexcept = default;
Xxh128& Xxh128::operator=(Xxh128&&) noexcept = default;

void Xxh128::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::string Xxh128::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_->xxh));
  return to_hex(canonical.digest, sizeof canonical.digest);
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    FEDQUEUE_ASSERT(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  }
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  FEDQUEUE_ASSERT(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() const {
  const State copy;
  FEDQUEUE_ASSERT(EVP_MD_CTX_copy_ex(copy.context, state_->context) == 1);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  FEDQUEUE_ASSERT(EVP_DigestFinal_ex(copy.context, digest, &size) == 1);
  return to_hex(digest, size);
}

std::string xxh128_hex(std::span<const std::byte> bytes) {
  Xxh128 digest;
  digest.update(bytes);
  return digest.hex();
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace fedqueue
