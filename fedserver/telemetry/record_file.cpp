#include "fedserver/telemetry/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

namespace fedqueue {
namespace {

// Longer than any line.
constexpr std::uint64_t tail_bytes = 4u << 20;

Result<std::string> read_tail(int fd, std::uint64_t bytes, const std::filesystem::path& path) {
  std::string tail(static_cast<std::size_t>(std::min(bytes, tail_bytes)), '\0');
  const std::uint64_t from = bytes - tail.size();
  std::size_t done = 0;
  while (done < tail.size()) {
    const ssize_t count =
        ::pread(fd, tail.data() + done, tail.size() - done, static_cast<off_t>(from + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return storage_error("read '" + path.string() + "'", errno);
    done += static_cast<std::size_t>(count);
  }
  return tail;
}

}  // namespace

Result<RecordFile> RecordFile::open(const std::filesystem::path& path, std::string_view header,
                                    const SequenceOf& sequence_of) {
  Result<FileDescriptor> fd = open_file(path, O_RDWR | O_CREAT);
  if (!fd) return fd.error();
  RecordFile file(std::move(*fd), path);
  struct stat status {};
  if (::fstat(file.fd_.get(), &status) != 0) {
    return storage_error("look at '" + path.string() + "'", errno);
  }
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  Result<std::string> tail = read_tail(file.fd_.get(), bytes, path);
  if (!tail) return tail.error();
  const std::size_t end = tail->rfind('\n');
  const std::size_t complete = end == std::string::npos ? 0 : end + 1;
  file.bytes_ = bytes - (tail->size() - complete);
  if (::ftruncate(file.fd_.get(), static_cast<off_t>(file.bytes_)) != 0) {
    return storage_error("write '" + path.string() + "'", errno);
  }
  if (complete > 0) {
    const std::size_t before = complete < 2 ? std::string::npos : tail->rfind('\n', complete - 2);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    file.last_sequence_ = sequence_of(std::string_view(*tail).substr(begin, complete - 1 - begin));
  } else if (!header.empty()) {
    file.append(0, std::string(header) + "\n");
    if (file.rows_lost_ > 0) return storage_error("write '" + path.string() + "'", errno);
  }
  return file;
}

void RecordFile::append(std::int64_t sequence, std::string_view lines) {
  if (sequence != 0 && sequence <= last_sequence_) return;
  std::size_t done = 0;
  while (done < lines.size()) {
    const ssize_t count = ::pwrite(fd_.get(), lines.data() + done, lines.size() - done,
                                   static_cast<off_t>(bytes_ + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      ++rows_lost_;
      // Half a line would spoil the next one. If this fails too, the next write overwrites it.
      if (::ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0) errno = EIO;
      return;
    }
    done += static_cast<std::size_t>(count);
  }
  bytes_ += lines.size();
  last_sequence_ = std::max(last_sequence_, sequence);
}

}  // namespace fedqueue
