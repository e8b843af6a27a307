// What the blob store needs of a disk. The operating system's files are behind it in production;
// the simulator's disk loses what was not synced, tears what was half written, and gets full.
//
// Promises expected of an implementation: bytes survive a power failure once sync() of their file
// has succeeded, names once sync_directory() of their folder has; rename() replaces its target in
// one step.
//
// Thread safety: a Disk may be used from any thread; a DiskFile from one thread at a time, but for
// sync() and start_writing(), which may run beside a write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace fedqueue {

class DiskFile {
 public:
  virtual ~DiskFile() = default;
  // How many bytes were read; 0 at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> bytes) = 0;
  // How many bytes were written: at least one. REQUIRES: bytes is not empty.
  virtual Result<std::size_t> write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  virtual Status sync() = 0;
  // A hint: these bytes are complete and their writing may begin.
  virtual void start_writing(std::uint64_t /*offset*/, std::uint64_t /*bytes*/) {}
};

class Disk {
 public:
  struct Entry {
    std::string name;
    std::uint64_t bytes = 0;  // 0 for what is no regular file
    Duration age{};           // since it was last written to
  };
  enum class Mode {
    read,
    write,    // made if it is not there
    replace,  // made, or emptied
  };

  virtual ~Disk() = default;
  virtual Result<std::unique_ptr<DiskFile>> open(const std::filesystem::path& path, Mode mode) = 0;
  virtual Status make_directories(const std::filesystem::path& path) = 0;
  virtual Status rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // Nothing happens if it is not there.
  virtual Status remove(const std::filesystem::path& path) = 0;
  // Makes a symbolic link. Fails if the name is taken.
  virtual Status link(const std::string& target, const std::filesystem::path& path) = 0;
  virtual Status sync_directory(const std::filesystem::path& path) = 0;
  // The size of a file; nothing if it is not there.
  virtual Result<std::optional<std::uint64_t>> bytes(const std::filesystem::path& path) = 0;
  virtual Result<std::vector<Entry>> list(const std::filesystem::path& path) = 0;
  // What may still be written to the disk that holds this folder.
  virtual Result<std::uint64_t> free_bytes(const std::filesystem::path& path) = 0;
};

// The operating system's.
[[nodiscard]] Disk& posix_disk();

}  // namespace fedqueue
