// The formats of a dataset directory: which files each has, and how they are read and written.
//
// Thread safety: the functions may be called from any thread on distinct directories.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/result.h"
#include "core/tensor/file.h"
#include "fedclient/data/dataset.h"

namespace fedqueue {

struct FormatEntry {
  DataFormat format;
  const char* name;  // as JSON has it
  // The files of a split as people know them, for messages.
  std::string (*files)(Split split);
  // Whether any of them is there.
  bool (*present)(const std::filesystem::path& directory, Split split);
  Result<Dataset> (*load)(const std::filesystem::path& directory, Split split);
  // REQUIRES: samples that the format can hold; tokens have no selection.
  Status (*write)(const std::filesystem::path& directory, Split split, const Dataset& dataset,
                  std::span<const std::int64_t> samples);
};

[[nodiscard]] const std::vector<FormatEntry>& data_formats();

[[nodiscard]] FormatEntry idx_format();
// 3073 bytes a sample: label, 3×32×32 pixels. Source: Krizhevsky, "Learning Multiple Layers of
// Features from Tiny Images" (2009), and the description of the binary version beside it.
[[nodiscard]] FormatEntry cifar10_format();
// 3074 bytes: superclass, which is not read and written as 0, fine label, pixels.
[[nodiscard]] FormatEntry cifar100_format();
[[nodiscard]] FormatEntry safetensors_format();
[[nodiscard]] FormatEntry tokens_format();

// Code::data about the file or directory of a dataset.
[[nodiscard]] Error data_error(const std::filesystem::path& path, const std::string& why,
                               const std::string& cure);
[[nodiscard]] bool file_exists(const std::filesystem::path& path);

using MappedFile = std::shared_ptr<const tensor::MappedData>;
// A whole file, read only, as long as nobody shortens it. Code::data if it is empty.
Result<MappedFile> map_file(const std::filesystem::path& path);

// Writes a file piece by piece that is there whole or not at all.
class StreamedFile {
 public:
  static Result<StreamedFile> create(const std::filesystem::path& path);
  StreamedFile(StreamedFile&&) noexcept = default;
  ~StreamedFile();

  Status write(std::span<const std::byte> bytes);
  // On disk, under its name, when it returns.
  Status finish();

 private:
  StreamedFile(FileDescriptor fd, std::filesystem::path path, std::filesystem::path temporary)
      : fd_(std::move(fd)), path_(std::move(path)), temporary_(std::move(temporary)) {}

  FileDescriptor fd_;
  std::filesystem::path path_;
  std::filesystem::path temporary_;
};

}  // namespace fedqueue
