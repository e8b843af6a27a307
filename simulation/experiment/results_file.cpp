#include "simulation/experiment/results_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "core/base/digest.h"

namespace fedqueue::simulation {
namespace {

constexpr std::size_t kBytesMax = std::size_t{4} << 30;

Status write_line(int fd, const std::string& line, const std::filesystem::path& path) {
  const std::string text = line + "\n";
  return write_all(fd, std::as_bytes(std::span(text)), path);
}

}  // namespace

Result<ResultsFile> ResultsFile::open(const std::filesystem::path& path,
                                      const std::string& identity, bool fresh) {
  std::filesystem::path lock_path = path;
  lock_path += ".lock";
  Result<LockFile> lock = LockFile::acquire(lock_path, "process " + std::to_string(::getpid()));
  if (!lock) return lock.error();
  Result<FileDescriptor> file = open_file(path, O_RDWR | O_CREAT | O_APPEND);
  if (!file) return file.error();
  ResultsFile results(path, std::move(*file), std::move(*lock));
  if (Status status = results.load("fedsim results 1 " + sha256_hex(identity), fresh); !status)
    return status.error();
  return results;
}

Status ResultsFile::load(const std::string& header, bool fresh) {
  Result<std::string> text = read_file(path_, kBytesMax);
  if (!text) return text.error();
  if (fresh) text->clear();
  std::size_t good = 0;  // bytes of whole lines
  bool first = true;
  for (std::size_t end = text->find('\n'); end != std::string::npos; end = text->find('\n', good)) {
    const std::string_view line(text->data() + good, end - good);
    if (first && line != header) {
      return Error{Code::conflict,
                   "go on with " + path_.string() + ": it holds results of another experiment",
                   "Choose another --output, or begin anew with --fresh."};
    }
    if (!first) {
      Result<CellResult> cell = decode_cell(line);
      if (!cell) return within("go on with " + path_.string(), cell.error());
      CellKey key = cell->key;
      cells_.insert_or_assign(std::move(key), std::move(*cell));
    }
    first = false;
    good = end + 1;
  }
  if (::ftruncate(file_.get(), static_cast<off_t>(good)) != 0)
    return storage_error("cut the unfinished line of " + path_.string(), errno);
  return first ? write_line(file_.get(), header, path_) : Status();
}

Status ResultsFile::append(const CellResult& result) {
  if (Status status = write_line(file_.get(), encode(result), path_); !status) return status;
  cells_.insert_or_assign(result.key, result);
  return {};
}

}  // namespace fedqueue::simulation
