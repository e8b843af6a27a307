#include "fedclient/data/checksums.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "fedclient/data/formats.h"

namespace fedqueue {
namespace {

constexpr std::size_t kHexDigits = 64;

Result<std::string> sha256_of(const std::filesystem::path& path) {
  Result<FileDescriptor> fd = open_file(path, O_RDONLY);
  if (!fd) return fd.error();
  Sha256 digest;
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (;;) {
    const ssize_t count = ::read(fd->get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return storage_error("read " + path.string(), errno);
    if (count == 0) return digest.hex();
    digest.update(std::span(buffer).first(static_cast<std::size_t>(count)));
  }
}

}  // namespace

Status write_checksums(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failed)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name != kChecksumFile && !name.starts_with('.'))
      names.push_back(name);
  }
  if (failed) return storage_error("list " + directory.string(), failed.value());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) {
    const Result<std::string> digest = sha256_of(directory / name);
    if (!digest) return digest.error();
    text += *digest + "  " + name + "\n";
  }
  return write_file_atomic(directory / kChecksumFile, text);
}

Result<std::optional<int>> verify_checksums(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kChecksumFile;
  if (!file_exists(path)) return std::optional<int>();
  const Result<std::string> text = read_file(path);
  if (!text) return text.error();
  int files = 0;
  for (const std::string& line : split(*text, '\n')) {
    if (line.empty()) continue;
    const bool whole = line.size() > kHexDigits + 2 && line[kHexDigits] == ' ';
    const std::string name = whole ? line.substr(kHexDigits + 2) : "";
    if (!whole || name.find('/') != std::string::npos) {
      return data_error(path, "a line is not a checksum, two spaces and a file's name",
                        "Fetch the dataset again.");
    }
    if (!file_exists(directory / name))
      return data_error(directory / name, "the manifest names it, but it does not exist",
                        "Fetch the dataset again.");
    const Result<std::string> digest = sha256_of(directory / name);
    if (!digest) return digest.error();
    if (*digest != line.substr(0, kHexDigits)) {
      return data_error(directory / name, "its SHA-256 is not the one in the manifest",
                        "Fetch the file again; if it was changed on purpose, make the manifest "
                        "anew with sha256sum.");
    }
    ++files;
  }
  return std::optional<int>(files);
}

}  // namespace fedqueue
