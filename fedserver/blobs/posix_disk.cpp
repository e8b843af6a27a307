// The disk port on the operating system's files.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "core/base/file.h"
#include "fedserver/blobs/disk.h"

namespace fedqueue {
namespace {

namespace fs = std::filesystem;

class PosixFile : public DiskFile {
 public:
  PosixFile(fs::path path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> bytes) override {
    for (;;) {
      const ssize_t count =
          ::pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) return storage_error("read '" + path_.string() + "'", errno);
    }
  }

  Result<std::size_t> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    for (;;) {
      const ssize_t count =
          ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (count > 0) return static_cast<std::size_t>(count);
      if (count < 0 && errno == EINTR) continue;
      return storage_error("write '" + path_.string() + "'", count < 0 ? errno : EIO);
    }
  }

  Status sync() override {
    if (::fdatasync(fd_.get()) != 0) return storage_error("sync '" + path_.string() + "'", errno);
    return {};
  }

  void start_writing(std::uint64_t offset, std::uint64_t bytes) override {
    // What the disk refuses here, the sync reports.
    (void)::sync_file_range(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                            SYNC_FILE_RANGE_WRITE);
  }

 private:
  fs::path path_;
  FileDescriptor fd_;
};

class PosixDisk : public Disk {
 public:
  Result<std::unique_ptr<DiskFile>> open(const fs::path& path, Mode mode) override {
    int flags = O_RDONLY;
    if (mode != Mode::read) flags = O_RDWR | O_CREAT | (mode == Mode::replace ? O_TRUNC : 0);
    Result<FileDescriptor> fd = open_file(path, flags);
    if (!fd) return fd.error();
    return std::unique_ptr<DiskFile>(std::make_unique<PosixFile>(path, std::move(*fd)));
  }

  Status make_directories(const fs::path& path) override {
    std::error_code fault;
    fs::create_directories(path, fault);
    if (fault) return storage_error("make the folder '" + path.string() + "'", fault.value());
    return {};
  }

  Status rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) == 0) return {};
    return storage_error("rename '" + from.string() + "' to '" + to.string() + "'", errno);
  }

  Status remove(const fs::path& path) override {
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
    return storage_error("remove '" + path.string() + "'", errno);
  }

  Status link(const std::string& target, const fs::path& path) override {
    if (::symlink(target.c_str(), path.c_str()) == 0) return {};
    return storage_error("link '" + path.string() + "'", errno);
  }

  Status sync_directory(const fs::path& path) override { return fedqueue::sync_directory(path); }

  Result<std::optional<std::uint64_t>> bytes(const fs::path& path) override {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) {
      return std::optional(static_cast<std::uint64_t>(status.st_size));
    }
    if (errno == ENOENT) return std::optional<std::uint64_t>();
    return storage_error("look at '" + path.string() + "'", errno);
  }

  Result<std::vector<Entry>> list(const fs::path& path) override {
    std::vector<Entry> entries;
    std::error_code fault;
    const auto now = fs::file_time_type::clock::now();
    for (fs::directory_iterator item(path, fault), end; !fault && item != end;
         item.increment(fault)) {
      Entry entry;
      entry.name = item->path().filename().string();
      // A file that goes away while it is looked at counts as empty and new.
      std::error_code gone;
      if (item->is_regular_file(gone)) {
        const std::uint64_t size = item->file_size(gone);
        if (!gone) entry.bytes = size;
      }
      const auto touched = item->last_write_time(gone);
      if (!gone) entry.age = std::chrono::duration_cast<Duration>(now - touched);
      entries.push_back(std::move(entry));
    }
    if (fault) return storage_error("list '" + path.string() + "'", fault.value());
    return entries;
  }

  Result<std::uint64_t> free_bytes(const fs::path& path) override {
    struct statvfs disk {};
    if (::statvfs(path.c_str(), &disk) != 0) {
      return storage_error("look at the disk of '" + path.string() + "'", errno);
    }
    return static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
  }
};

}  // namespace

Disk& posix_disk() {
  static PosixDisk disk;
  return disk;
}

}  // namespace fedqueue
