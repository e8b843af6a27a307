// Checksums: XXH3-128 for bytes in flight (fast, finds accidents), SHA-256 for published models
// (names a model for good). Both are written as lower-case hexadecimal.
//
// Not thread-safe; distinct objects are independent.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace fedqueue {

class Xxh128 {
 public:
  Xxh128();
  ~Xxh128();
  Xxh128(Xxh128&&) noexcept;
  Xxh128& operator=(Xxh128&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // The digest of all bytes so far, 32 characters; more bytes may follow.
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // The digest of all bytes so far, 64 characters; more bytes may follow.
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

[[nodiscard]] std::string xxh128_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace fedqueue
