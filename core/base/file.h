// Files that are either there whole or not at all.
//
// Thread safety: the functions may be called from any thread on distinct paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/result.h"

namespace fedqueue {

// An owned file descriptor, closed at the end of its life. -1 is empty.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

// flags as for open(2); O_CLOEXEC is added. The mode is for created files, exactly (no umask).
Result<FileDescriptor> open_file(const std::filesystem::path& path, int flags,
                                 unsigned mode = 0644);

// The whole file, refused when longer than bytes_max.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max = 16u << 20);

// Writes all bytes at the offset of the descriptor.
Status write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

// temp → fsync → rename → fsync of the directory. On failure the old file is untouched.
Status write_file_atomic(const std::filesystem::path& path, std::string_view content,
                         unsigned mode = 0644);

// Makes a rename or a new name in this directory durable.
Status sync_directory(const std::filesystem::path& directory);

// Holds an exclusive lock on a file (flock) until destroyed; already_running if another process has
// it, with the text that process left in it.
class LockFile {
 public:
  static Result<LockFile> acquire(const std::filesystem::path& path, std::string_view owner_text);

 private:
  explicit LockFile(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

}  // namespace fedqueue
