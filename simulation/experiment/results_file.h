// Results of finished cells, one line each, so that a comparison that was killed goes on where it
// was.
//
// The first line names the experiment by a digest of everything that decides its results; a file of
// another one is refused instead of mixed with. A line that was cut by a kill is removed at the
// next start.
//
// Not thread-safe; one process at a time, which a lock ensures.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/base/file.h"
#include "core/base/result.h"
#include "simulation/experiment/cell.h"

namespace fedqueue::simulation {

class ResultsFile {
 public:
  // Opens or begins the file. `identity` is any text; `fresh` forgets what is there.
  static Result<ResultsFile> open(const std::filesystem::path& path, const std::string& identity,
                                  bool fresh);

  [[nodiscard]] const std::map<CellKey, CellResult>& cells() const { return cells_; }
  // Appends one line; it is in the file when this returns.
  Status append(const CellResult& result);

 private:
  ResultsFile(std::filesystem::path path, FileDescriptor file, LockFile lock)
      : path_(std::move(path)), file_(std::move(file)), lock_(std::move(lock)) {}
  Status load(const std::string& header, bool fresh);

  std::filesystem::path path_;
  FileDescriptor file_;
  LockFile lock_;
  std::map<CellKey, CellResult> cells_;
};

}  // namespace fedqueue::simulation
