#include <optional>
#include <utility>

#include "fedclient/data/formats.h"
#include "fedclient/data/idx.h"

namespace fedqueue {
namespace {

constexpr const char* kImages = "images-idx3-ubyte";
constexpr const char* kLabels = "labels-idx1-ubyte";

std::string file_name(Split split, const char* kind) {
  return std::string(split == Split::train ? "train-" : "t10k-") + kind;
}

// The plain file if it is there, else the compressed one.
std::optional<std::filesystem::path> find_file(const std::filesystem::path& directory, Split split,
                                               const char* kind) {
  for (const char* suffix : {"", ".gz"}) {
    std::filesystem::path path = directory / (file_name(split, kind) + suffix);
    if (file_exists(path)) return path;
  }
  return std::nullopt;
}

std::string files(Split split) { return file_name(split, kImages) + " (IDX)"; }

bool present(const std::filesystem::path& directory, Split split) {
  return find_file(directory, split, kImages) || find_file(directory, split, kLabels);
}

Error missing(const std::filesystem::path& directory, Split split, const char* kind) {
  return data_error(directory / file_name(split, kind), "it (or .gz) does not exist",
                    "Images and labels lie in one directory; fetch both again.");
}

Result<Dataset> load(const std::filesystem::path& directory, Split split) {
  const auto images_path = find_file(directory, split, kImages);
  if (!images_path) return missing(directory, split, kImages);
  const auto labels_path = find_file(directory, split, kLabels);
  if (!labels_path) return missing(directory, split, kLabels);
  Result<IdxArray> images = read_idx(*images_path);
  if (!images) return images.error();
  Result<IdxArray> labels = read_idx(*labels_path);
  if (!labels) return labels.error();

  const std::size_t dimensions = images->shape.size();
  if (dimensions < 3 || dimensions > 4 || labels->shape.size() != 1) {
    return data_error(directory,
                      "expected images with 3 or 4 dimensions and labels with 1, got " +
                          std::to_string(dimensions) + " and " +
                          std::to_string(labels->shape.size()),
                      "Check that the files were not swapped.");
  }
  if (images->shape[0] != labels->shape[0]) {
    return data_error(directory,
                      std::to_string(images->shape[0]) + " images but " +
                          std::to_string(labels->shape[0]) + " labels",
                      "The two files must come from the same dataset.");
  }
  if (images->bytes.empty() && !labels->bytes.empty())
    return data_error(directory, "the images have no pixels", "Fetch the files again.");
  InputShape input;
  input.sizes.assign(images->shape.begin() + 1, images->shape.end());
  if (dimensions == 3) input.sizes.insert(input.sizes.begin(), 1);
  return Dataset::of_bytes(std::move(input), std::move(images->bytes),
                           {labels->bytes.begin(), labels->bytes.end()});
}

Status write(const std::filesystem::path& directory, Split split, const Dataset& whole,
             std::span<const std::int64_t> samples) {
  FEDQUEUE_ASSERT(whole.dtype == tensor::DType::u8 && whole.classes <= 256);
  const Dataset dataset = samples.empty() ? whole : whole.subset(samples);
  std::vector<std::int64_t> shape = {dataset.samples()};
  // One channel is left out, as in the published files of grey images.
  const bool grey = dataset.input.is_image() && dataset.input.sizes.front() == 1;
  shape.insert(shape.end(), dataset.input.sizes.begin() + (grey ? 1 : 0),
               dataset.input.sizes.end());
  const auto* values = reinterpret_cast<const std::uint8_t*>(dataset.values.data());
  if (Status status =
          write_idx(directory / file_name(split, kImages), shape, {values, dataset.values.size()});
      !status) {
    return status;
  }
  const std::vector<std::uint8_t> labels(dataset.labels.begin(), dataset.labels.end());
  return write_idx(directory / file_name(split, kLabels), {dataset.samples()}, labels);
}

}  // namespace

FormatEntry idx_format() { return {DataFormat::idx, "idx", files, present, load, write}; }

}  // namespace fedqueue
