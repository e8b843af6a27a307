#include "fedclient/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "core/base/file.h"

namespace fedqueue {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;
constexpr int kDimensionsMax = 4;
constexpr std::int64_t kBytesMax = std::int64_t{1} << 38;
constexpr std::size_t kChunk = std::size_t{4} << 20;

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};
using Gzip = std::unique_ptr<gzFile_s, CloseGzip>;

Error broken(const std::filesystem::path& path, const std::string& why) {
  return {Code::data, "read dataset file " + path.string() + ": " + why,
          "Fetch the file again, or point --dataset at another directory."};
}

// Exactly count bytes, or the reason why they are not there.
Status read_exactly(gzFile_s* file, const std::filesystem::path& path, std::uint8_t* out,
                    std::size_t count) {
  std::size_t done = 0;
  while (done < count) {
    const auto wanted = static_cast<unsigned>(std::min(count - done, kChunk));
    const int got = gzread(file, out + done, wanted);
    if (got <= 0) {
      int zlib_code = 0;
      const char* text = gzerror(file, &zlib_code);
      if (zlib_code != Z_OK && zlib_code != Z_BUF_ERROR) {
        return broken(path, std::string("the compressed data is broken (") + text + ")");
      }
      return broken(
          path, "the file is truncated: " + std::to_string(count - done) + " bytes are missing");
    }
    done += static_cast<std::size_t>(got);
  }
  return {};
}

struct Header {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
};

Result<Header> read_header(gzFile_s* file, const std::filesystem::path& path) {
  std::uint8_t magic[4];
  if (Status status = read_exactly(file, path, magic, sizeof magic); !status) {
    return status.error();
  }
  if (magic[0] != 0 || magic[1] != 0) {
    return broken(path, "this is not an IDX file (it does not begin with two zero bytes)");
  }
  if (magic[2] != kUnsignedByte) {
    return broken(path, "the elements are of type code " + std::to_string(magic[2]) +
                            ", expected 8 (unsigned bytes)");
  }
  if (magic[3] < 1 || magic[3] > kDimensionsMax) {
    return broken(
        path, "the file claims " + std::to_string(magic[3]) + " dimensions, expected one to four");
  }
  Header header;
  for (int i = 0; i < magic[3]; ++i) {
    std::uint8_t raw[4];
    if (Status status = read_exactly(file, path, raw, sizeof raw); !status) return status.error();
    const std::int64_t size =
        (std::int64_t{raw[0]} << 24) | (raw[1] << 16) | (raw[2] << 8) | raw[3];
    if (size > 0 && header.elements > kBytesMax / size) {
      return broken(path, "the dimensions multiply to more than the 256 GiB allowed");
    }
    header.shape.push_back(size);
    header.elements *= size;
  }
  return header;
}

}  // namespace

Result<IdxArray> read_idx(const std::filesystem::path& path) {
  errno = 0;
  const Gzip file(gzopen(path.c_str(), "rbe"));
  if (!file) {
    return Error{Code::data,
                 "read dataset file " + path.string() + ": " +
                     (errno != 0 ? std::strerror(errno) : "out of memory"),
                 "Check the path and its permissions."};
  }
  gzbuffer(file.get(), 1u << 17);
  Result<Header> header = read_header(file.get(), path);
  if (!header) return header.error();

  IdxArray array;
  array.shape = header->shape;
  // The header may lie, so memory grows only with the bytes that are really there.
  const auto total = static_cast<std::size_t>(header->elements);
  for (std::size_t done = 0; done < total;) {
    const std::size_t part = std::min(kChunk, total - done);
    array.bytes.resize(done + part);
    if (Status status = read_exactly(file.get(), path, array.bytes.data() + done, part); !status) {
      return status.error();
    }
    done += part;
  }
  std::uint8_t extra = 0;
  const int left = gzread(file.get(), &extra, 1);
  if (left > 0) return broken(path, "there are bytes after the last element");
  if (left < 0) return broken(path, "the compressed data is broken at its end");
  return array;
}

Status write_idx(const std::filesystem::path& path, const std::vector<std::int64_t>& shape,
                 std::span<const std::uint8_t> bytes) {
  FEDQUEUE_ASSERT(!shape.empty() && shape.size() <= kDimensionsMax);
  std::string content;
  content.reserve(4 + 4 * shape.size() + bytes.size());
  content += {'\0', '\0', static_cast<char>(kUnsignedByte), static_cast<char>(shape.size())};
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape) {
    FEDQUEUE_ASSERT(size >= 0 && size < (std::int64_t{1} << 32));
    elements *= static_cast<std::uint64_t>(size);
    for (int shift = 24; shift >= 0; shift -= 8)
      content += static_cast<char>((size >> shift) & 0xff);
  }
  FEDQUEUE_ASSERT(elements == bytes.size());
  content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return write_file_atomic(path, content);
}

}  // namespace fedqueue
