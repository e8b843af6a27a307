#include "core/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/text.h"

namespace fedqueue {
namespace {

std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

}  // namespace

void FileDescriptor::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Result<FileDescriptor> open_file(const std::filesystem::path& path, int flags, unsigned mode) {
  for (;;) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, static_cast<mode_t>(mode));
    if (fd >= 0) {
      FileDescriptor owned(fd);
      if ((flags & O_CREAT) != 0 && ::fchmod(fd, static_cast<mode_t>(mode)) != 0) {
        return storage_error("set the mode of " + quoted(path), errno);
      }
      return owned;
    }
    if (errno != EINTR) return storage_error("open " + quoted(path), errno);
  }
}

Result<std::string> read_file(const std::filesystem::path& path, std::size_t bytes_max) {
  Result<FileDescriptor> fd = open_file(path, O_RDONLY);
  if (!fd) return fd.error();
  std::string content;
  char buffer[65536];
  for (;;) {
    const ssize_t count = ::read(fd->get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return storage_error("read " + quoted(path), errno);
    if (count == 0) return content;
    content.append(buffer, static_cast<std::size_t>(count));
    if (content.size() > bytes_max) {
      return Error{
          Code::too_large,
          "read " + quoted(path) + ": it is longer than " + std::to_string(bytes_max) + " bytes",
          ""};
    }
  }
}

Status write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return storage_error("write " + quoted(path), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Status sync_directory(const std::filesystem::path& directory) {
  const std::filesystem::path shown = directory.empty() ? std::filesystem::path(".") : directory;
  Result<FileDescriptor> fd = open_file(shown, O_RDONLY | O_DIRECTORY);
  if (!fd) return fd.error();
  if (::fsync(fd->get()) != 0) return storage_error("sync directory " + quoted(shown), errno);
  return {};
}

Status write_file_atomic(const std::filesystem::path& path, std::string_view content,
                         unsigned mode) {
  std::filesystem::path temporary = path;
  temporary += ".tmp." + std::to_string(::getpid());
  const auto attempt = [&]() -> Status {
    Result<FileDescriptor> fd = open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC, mode);
    if (!fd) return fd.error();
    const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
    if (Status written = write_all(fd->get(), bytes, temporary); !written) return written;
    if (::fsync(fd->get()) != 0) return storage_error("sync " + quoted(temporary), errno);
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      return storage_error("rename " + quoted(temporary) + " to " + quoted(path), errno);
    }
    return sync_directory(path.parent_path());
  };
  Status status = attempt();
  if (!status) ::unlink(temporary.c_str());
  return status;
}

Result<LockFile> LockFile::acquire(const std::filesystem::path& path, std::string_view owner_text) {
  Result<FileDescriptor> fd = open_file(path, O_RDWR | O_CREAT, 0644);
  if (!fd) return fd.error();
  if (::flock(fd->get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return storage_error("lock " + quoted(path), errno);
    char owner[256] = {};
    const ssize_t count = ::pread(fd->get(), owner, sizeof owner - 1, 0);
    const std::string text(
        trim(std::string_view(owner, count > 0 ? static_cast<std::size_t>(count) : 0)));
    return Error{Code::already_running, "already running" + (text.empty() ? "" : ": " + text), ""};
  }
  if (::ftruncate(fd->get(), 0) != 0) return storage_error("write " + quoted(path), errno);
  const auto bytes = std::as_bytes(std::span(owner_text.data(), owner_text.size()));
  if (Status written = write_all(fd->get(), bytes, path); !written) return written.error();
  return LockFile(std::move(*fd));
}

}  // namespace fedqueue
