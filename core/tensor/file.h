// safetensors files on disk, streamed: no call needs the memory of a whole model.
//
// Reader promises a checked header; data is read by position. Writer writes the header, then the
// data, and knows the SHA-256 of the whole file when it is finished. A Writer that is destroyed
// before finish() succeeded removes its file.
//
// Thread safety: Reader's const functions may be called from many threads. Writer::place may be
// called from many threads at once with ranges that do not overlap; everything else from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/result.h"
#include "core/tensor/manifest.h"

namespace fedqueue::tensor {

// Fills `out` from the file at that offset; fails when the file ends before.
Status read_at(int fd, std::uint64_t offset, std::span<std::byte> out,
               const std::filesystem::path& path);

// A read-only view of a data section, unmapped at the end of its life. Reading it is only safe as
// long as nobody shortens the file.
class MappedData {
 public:
  MappedData(void* address, std::size_t mapped, std::size_t skipped)
      : address_(address), mapped_(mapped), skipped_(skipped) {}
  ~MappedData();
  MappedData(MappedData&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)),
        mapped_(other.mapped_),
        skipped_(other.skipped_) {}
  MappedData& operator=(MappedData&&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(address_) + skipped_, mapped_ - skipped_};
  }
  [[nodiscard]] std::span<const std::byte> bytes(const TensorInfo& tensor) const {
    return bytes().subspan(tensor.begin, tensor.bytes());
  }

 private:
  void* address_;
  std::size_t mapped_;
  std::size_t skipped_;
};

class Reader {
 public:
  static Result<Reader> open(const std::filesystem::path& path,
                             std::uint64_t header_bytes_max = header_bytes_max_default);

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // Fills `out` from the data section at that offset.
  [[nodiscard]] Status read(std::uint64_t data_offset, std::span<std::byte> out) const;
  // The whole of one tensor. REQUIRES: out.size() == tensor.bytes().
  [[nodiscard]] Status read_tensor(const TensorInfo& tensor, std::span<std::byte> out) const;
  [[nodiscard]] Result<MappedData> map() const;

  // The open file, for callers that read by themselves; the Reader gives it up.
  [[nodiscard]] FileDescriptor take_descriptor() && { return std::move(fd_); }

 private:
  Reader(FileDescriptor fd, std::filesystem::path path, Manifest manifest)
      : fd_(std::move(fd)), path_(std::move(path)), manifest_(std::move(manifest)) {}

  FileDescriptor fd_;
  std::filesystem::path path_;
  Manifest manifest_;
};

struct WrittenFile {
  std::string sha256;
  std::uint64_t bytes = 0;
};

// Legal order: create (write* | (place* and digest* in the order of the data)) finish [commit].
class Writer {
 public:
  // Creates or replaces the file and writes the header of this manifest, whose offsets are kept.
  static Result<Writer> create(const std::filesystem::path& path, Manifest manifest);
  ~Writer();
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) = delete;

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }

  // Appends to the data section: places and digests.
  [[nodiscard]] Status write(std::span<const std::byte> bytes);

  // For several threads: the bytes at an offset of the data section, in any order …
  [[nodiscard]] Status place(std::uint64_t data_offset, std::span<const std::byte> bytes) const;
  // … and the same bytes again for the checksum, in the order of the data.
  void digest(std::span<const std::byte> bytes);

  // Checks that the data section is complete and makes the file durable.
  [[nodiscard]] Result<WrittenFile> finish();

  // Renames the finished file and makes the new name durable.
  [[nodiscard]] Status commit(const std::filesystem::path& final_path);

 private:
  Writer(FileDescriptor fd, std::filesystem::path path, Manifest manifest)
      : fd_(std::move(fd)), path_(std::move(path)), manifest_(std::move(manifest)) {}

  FileDescriptor fd_;
  std::filesystem::path path_;
  Manifest manifest_;
  Sha256 sha256_;
  std::uint64_t digested_ = 0;
  std::uint64_t flushed_ = 0;  // given to the disk before finish()
  bool finished_ = false;
};

}  // namespace fedqueue::tensor
