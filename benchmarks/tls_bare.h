// The hardware's limit for a transfer over TLS: two threads, one socket, OpenSSL and nothing else.
//
// The cipher, the buffers and the work on the bytes are the server's: read-ahead of several
// records, 256 KiB at a time, XXH3-128 while the bytes are in cache, write, fsync. Not thread-safe.
#pragma once

#include <filesystem>
#include <string>

namespace fedqueue::benchmark {

struct BareFiles {
  std::filesystem::path ca;
  std::filesystem::path certificate;
  std::filesystem::path key;
};

// Each returns the seconds from the first byte sent to the end of the work; ends the program on a
// failure.

// The sender reads `source` and encrypts; the receiver decrypts, checksums, writes and syncs.
double bare_upload(const BareFiles& files, const std::filesystem::path& source,
                   const std::filesystem::path& target);
// The sender reads `source` and encrypts; the receiver decrypts and drops the bytes.
double bare_download(const BareFiles& files, const std::filesystem::path& source);
// The receiver also takes the SHA-256, writes and syncs, as a facility does with a model.
double bare_download_to_file(const BareFiles& files, const std::filesystem::path& source,
                             const std::filesystem::path& target);

// The cipher of the newest transfer.
[[nodiscard]] std::string bare_cipher();

}  // namespace fedqueue::benchmark
