#include "fedclient/data/dataset.h"

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>

#include "fedclient/data/idx.h"

namespace fedqueue {
namespace {

std::string file_name(Split split, const char* kind) {
  return std::string(split == Split::train ? "train-" : "t10k-") + kind;
}

constexpr const char* kImages = "images-idx3-ubyte";
constexpr const char* kLabels = "labels-idx1-ubyte";

// The plain file if it is there, else the compressed one.
std::optional<std::filesystem::path> find_file(const std::filesystem::path& directory, Split split,
                                               const char* kind) {
  for (const char* suffix : {"", ".gz"}) {
    std::filesystem::path path = directory / (file_name(split, kind) + suffix);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return std::nullopt;
}

Error missing(const std::filesystem::path& directory, Split split, const char* kind) {
  return {Code::data,
          "load the dataset: " + (directory / file_name(split, kind)).string() +
              " (or .gz) does not exist",
          std::string("Install the package dataset-fashion-mnist, which fills ") +
              kDatasetDirectoryDefault + ", or name the directory with --dataset."};
}

}  // namespace

std::vector<std::int64_t> Dataset::histogram() const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes), 0);
  for (const std::uint8_t label : labels) ++counts[label];
  return counts;
}

Dataset Dataset::subset(std::span<const std::int64_t> indices) const {
  Dataset part;
  part.rows = rows;
  part.columns = columns;
  part.classes = classes;
  part.images.reserve(indices.size() * static_cast<std::size_t>(pixels()));
  part.labels.reserve(indices.size());
  for (const std::int64_t index : indices) {
    FEDQUEUE_ASSERT(index >= 0 && index < samples());
    part.images.insert(part.images.end(), image(index), image(index) + pixels());
    part.labels.push_back(labels[static_cast<std::size_t>(index)]);
  }
  return part;
}

Result<Dataset> load_dataset(const std::filesystem::path& directory, Split split) {
  const auto images_path = find_file(directory, split, kImages);
  if (!images_path) return missing(directory, split, kImages);
  const auto labels_path = find_file(directory, split, kLabels);
  if (!labels_path) return missing(directory, split, kLabels);
  Result<IdxArray> images = read_idx(*images_path);
  if (!images) return images.error();
  Result<IdxArray> labels = read_idx(*labels_path);
  if (!labels) return labels.error();

  const std::string where = "load the dataset in " + directory.string() + ": ";
  if (images->shape.size() != 3 || labels->shape.size() != 1) {
    return Error{Code::data,
                 where + "expected images with 3 dimensions and labels with 1, got " +
                     std::to_string(images->shape.size()) + " and " +
                     std::to_string(labels->shape.size()),
                 "Check that the files were not swapped."};
  }
  if (images->shape[0] != labels->shape[0]) {
    return Error{Code::data,
                 where + std::to_string(images->shape[0]) + " images but " +
                     std::to_string(labels->shape[0]) + " labels",
                 "The two files must come from the same dataset."};
  }
  if (labels->bytes.empty() || images->bytes.empty()) {
    return Error{Code::data, where + "there are no samples",
                 "Training needs at least one sample; check how the data was split."};
  }
  Dataset dataset;
  dataset.rows = images->shape[1];
  dataset.columns = images->shape[2];
  dataset.images = std::move(images->bytes);
  dataset.labels = std::move(labels->bytes);
  dataset.classes = *std::max_element(dataset.labels.begin(), dataset.labels.end()) + 1;
  return dataset;
}

Status write_dataset(const std::filesystem::path& directory, Split split, const Dataset& dataset) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) return storage_error("create directory " + directory.string(), failed.value());
  if (Status status = write_idx(directory / file_name(split, kImages),
                                {dataset.samples(), dataset.rows, dataset.columns}, dataset.images);
      !status) {
    return status;
  }
  return write_idx(directory / file_name(split, kLabels), {dataset.samples()}, dataset.labels);
}

}  // namespace fedqueue
