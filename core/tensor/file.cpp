#include "core/tensor/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/assert.h"

namespace fedqueue::tensor {
namespace {

std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

Status write_at(int fd, std::uint64_t offset, std::span<const std::byte> bytes,
                const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return storage_error("write " + quoted(path), errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

}  // namespace

Status read_at(int fd, std::uint64_t offset, std::span<std::byte> out,
               const std::filesystem::path& path) {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return storage_error("read " + quoted(path), errno);
    if (count == 0) {
      return Error{Code::storage,
                   "read " + quoted(path) + ": the file ends at byte " + std::to_string(offset) +
                       ", earlier than its header says",
                   "Do not change files of the run directory while the server runs."};
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

MappedData::~MappedData() {
  if (address_ != nullptr) ::munmap(address_, mapped_);
}

Result<Reader> Reader::open(const std::filesystem::path& path, std::uint64_t header_bytes_max) {
  Result<FileDescriptor> fd = open_file(path, O_RDONLY);
  if (!fd) return fd.error();
  struct stat status {};
  if (::fstat(fd->get(), &status) != 0) return storage_error("examine " + quoted(path), errno);
  const auto file_size = static_cast<std::uint64_t>(status.st_size);

  std::vector<std::byte> prefix(std::min<std::uint64_t>(8, file_size));
  if (Status read = read_at(fd->get(), 0, prefix, path); !read) return read.error();
  const Result<std::uint64_t> length = header_length(prefix, file_size, header_bytes_max);
  if (!length) return within("open " + quoted(path), length.error());
  prefix.resize(*length);
  if (Status read = read_at(fd->get(), 0, prefix, path); !read) return read.error();
  Result<Manifest> manifest = parse_header(prefix, file_size, header_bytes_max);
  if (!manifest) return within("open " + quoted(path), manifest.error());
  return Reader(std::move(*fd), path, std::move(*manifest));
}

Status Reader::read(std::uint64_t data_offset, std::span<std::byte> out) const {
  FEDQUEUE_ASSERT(data_offset <= manifest_.data_bytes &&
                  out.size() <= manifest_.data_bytes - data_offset);
  return read_at(fd_.get(), manifest_.header_bytes + data_offset, out, path_);
}

Status Reader::read_tensor(const TensorInfo& tensor, std::span<std::byte> out) const {
  FEDQUEUE_ASSERT(out.size() == tensor.bytes());
  return read(tensor.begin, out);
}

Result<MappedData> Reader::map() const {
  const auto size = static_cast<std::size_t>(manifest_.file_bytes());
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) return storage_error("map " + quoted(path_), errno);
  return MappedData(address, size, static_cast<std::size_t>(manifest_.header_bytes));
}

Result<Writer> Writer::create(const std::filesystem::path& path, Manifest manifest) {
  const std::string header = build_header(manifest);
  manifest.header_bytes = header.size();
  Result<FileDescriptor> fd = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (!fd) return fd.error();
  Writer writer(std::move(*fd), path, std::move(manifest));
  const auto bytes = std::as_bytes(std::span(header.data(), header.size()));
  if (Status written = write_at(writer.fd_.get(), 0, bytes, path); !written) {
    return written.error();
  }
  writer.sha256_.update(bytes);
  return writer;
}

Writer::Writer(Writer&&) noexcept = default;

Writer::~Writer() {
  if (fd_ && !finished_) ::unlink(path_.c_str());
}

Status Writer::place(std::uint64_t data_offset, std::span<const std::byte> bytes) const {
  FEDQUEUE_ASSERT(data_offset <= manifest_.data_bytes &&
                  bytes.size() <= manifest_.data_bytes - data_offset);
  return write_at(fd_.get(), manifest_.header_bytes + data_offset, bytes, path_);
}

void Writer::digest(std::span<const std::byte> bytes) {
  sha256_.update(bytes);
  digested_ += bytes.size();
  constexpr std::uint64_t step = 8u << 20;
  if (digested_ - flushed_ < step) return;
  // Only a hint: the disk begins now what finish() would otherwise wait for at the end.
  ::sync_file_range(fd_.get(), static_cast<off_t>(manifest_.header_bytes + flushed_),
                    static_cast<off_t>(digested_ - flushed_), SYNC_FILE_RANGE_WRITE);
  flushed_ = digested_;
}

Status Writer::write(std::span<const std::byte> bytes) {
  if (bytes.size() > manifest_.data_bytes - digested_) {
    return Error{Code::internal,
                 "write " + quoted(path_) + ": more than the " +
                     std::to_string(manifest_.data_bytes) + " bytes of the manifest",
                 ""};
  }
  if (Status placed = place(digested_, bytes); !placed) return placed;
  digest(bytes);
  return {};
}

Result<WrittenFile> Writer::finish() {
  if (digested_ != manifest_.data_bytes) {
    return Error{Code::internal,
                 "finish " + quoted(path_) + ": " + std::to_string(digested_) +
                     " bytes of data of " + std::to_string(manifest_.data_bytes) + " were written",
                 ""};
  }
  if (::fsync(fd_.get()) != 0) return storage_error("sync " + quoted(path_), errno);
  finished_ = true;
  return WrittenFile{sha256_.hex(), manifest_.file_bytes()};
}

Status Writer::commit(const std::filesystem::path& final_path) {
  FEDQUEUE_ASSERT(finished_);
  if (::rename(path_.c_str(), final_path.c_str()) != 0) {
    return storage_error("rename " + quoted(path_) + " to " + quoted(final_path), errno);
  }
  path_ = final_path;
  return sync_directory(final_path.parent_path());
}

}  // namespace fedqueue::tensor
