// A file of lines to which each journal row contributes at most once, over all lives of the server.
//
// The lines carry the row's sequence; on opening the file the last one is found, and a torn last
// line is removed. The lines of one row leave in one write. A row that cannot be written is counted
// and left out: a full disk must not stop the run, and the journal has it anyway.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/file.h"
#include "core/base/result.h"

namespace fedqueue {

class RecordFile {
 public:
  // The sequence in a complete line; 0 when it has none, as a header.
  using SequenceOf = std::function<std::int64_t(std::string_view line)>;

  // `header` is written into an empty file; it may be empty.
  static Result<RecordFile> open(const std::filesystem::path& path, std::string_view header,
                                 const SequenceOf& sequence_of);

  [[nodiscard]] std::int64_t last_sequence() const { return last_sequence_; }
  // Appends the lines (each with its end) of a row, unless the file has it already.
  void append(std::int64_t sequence, std::string_view lines);
  [[nodiscard]] std::uint64_t rows_lost() const { return rows_lost_; }

 private:
  RecordFile(FileDescriptor fd, std::filesystem::path path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  FileDescriptor fd_;
  std::filesystem::path path_;
  std::uint64_t bytes_ = 0;  // of complete lines
  std::int64_t last_sequence_ = 0;
  std::uint64_t rows_lost_ = 0;
};

}  // namespace fedqueue
