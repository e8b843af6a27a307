#include "fedclient/data/formats.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace fedqueue {
namespace {

// What could be there, for a person who has none of it.
std::string known_files(Split split) {
  std::string text;
  for (const FormatEntry& entry : data_formats()) {
    if (!text.empty()) text += ", ";
    text += entry.files(split);
  }
  return text;
}

const FormatEntry& entry_of(DataFormat format) {
  for (const FormatEntry& entry : data_formats()) {
    if (entry.format == format) return entry;
  }
  FEDQUEUE_ASSERT(false);
}

}  // namespace

const std::vector<FormatEntry>& data_formats() {
  static const std::vector<FormatEntry> entries = {
      idx_format(), cifar10_format(), cifar100_format(), safetensors_format(), tokens_format()};
  return entries;
}

Error data_error(const std::filesystem::path& path, const std::string& why,
                 const std::string& cure) {
  return {Code::data, "read the dataset " + path.string() + ": " + why, cure};
}

bool file_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Result<MappedFile> map_file(const std::filesystem::path& path) {
  const std::string cure = "Check the path and its permissions.";
  Result<FileDescriptor> fd = open_file(path, O_RDONLY);
  if (!fd) return Error{Code::data, fd.error().message, cure};
  struct stat status {};
  if (::fstat(fd->get(), &status) != 0) return storage_error("examine " + path.string(), errno);
  if (status.st_size == 0) return data_error(path, "the file is empty", "Fetch or make it again.");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd->get(), 0);
  if (address == MAP_FAILED) return storage_error("map " + path.string(), errno);
  return std::make_shared<const tensor::MappedData>(address, size, 0);
}

Result<StreamedFile> StreamedFile::create(const std::filesystem::path& path) {
  std::filesystem::path temporary = path;
  temporary += ".tmp." + std::to_string(::getpid());
  Result<FileDescriptor> fd = open_file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  if (!fd) return fd.error();
  return StreamedFile(std::move(*fd), path, temporary);
}

StreamedFile::~StreamedFile() {
  if (fd_) ::unlink(temporary_.c_str());
}

Status StreamedFile::write(std::span<const std::byte> bytes) {
  return write_all(fd_.get(), bytes, temporary_);
}

Status StreamedFile::finish() {
  if (::fsync(fd_.get()) != 0) return storage_error("sync " + temporary_.string(), errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    return storage_error("rename " + temporary_.string() + " to " + path_.string(), errno);
  fd_.reset();
  return sync_directory(path_.parent_path());
}

const char* name_of(DataFormat format) { return entry_of(format).name; }

Result<DataFormat> find_format(const std::filesystem::path& directory, Split split) {
  const FormatEntry* found = nullptr;
  for (const FormatEntry& entry : data_formats()) {
    if (!entry.present(directory, split)) continue;
    if (found) {
      return data_error(
          directory,
          "two datasets are there, " + found->files(split) + " and " + entry.files(split),
          "Keep one of them in this directory.");
    }
    found = &entry;
  }
  if (found) return found->format;
  const std::string what = split == Split::train ? "nothing to train on" : "no held-out data";
  return data_error(directory,
                    file_exists(directory)
                        ? "there is " + what + ": none of " + known_files(split)
                        : "the directory does not exist (it would hold " + known_files(split) + ")",
                    std::string("Install the package dataset-fashion-mnist, which fills ") +
                        kDatasetDirectoryDefault + ", or name the directory with --dataset.");
}

Result<Dataset> load_dataset(const std::filesystem::path& directory, Split split) {
  const Result<DataFormat> format = find_format(directory, split);
  if (!format) return format.error();
  Result<Dataset> dataset = entry_of(*format).load(directory, split);
  if (dataset && dataset->samples() == 0) {
    return data_error(directory, "there are no samples",
                      "Training needs at least one sample; check how the data was split.");
  }
  return dataset;
}

Status write_dataset(const std::filesystem::path& directory, Split split, const Dataset& dataset,
                     DataFormat format, std::span<const std::int64_t> samples) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) return storage_error("create directory " + directory.string(), failed.value());
  return entry_of(format).write(directory, split, dataset, samples);
}

}  // namespace fedqueue
