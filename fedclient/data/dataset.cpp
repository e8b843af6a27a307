#include "fedclient/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/assert.h"
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

std::int64_t token_at(const Dataset& dataset, std::int64_t position) {
  const std::byte* at = dataset.values.data();
  if (dataset.dtype == tensor::DType::u16) {
    std::uint16_t token = 0;
    std::memcpy(&token, at + position * 2, sizeof token);
    return token;
  }
  std::int32_t token = 0;
  std::memcpy(&token, at + position * 4, sizeof token);
  return token;
}

void gather_tokens(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch) {
  const std::int64_t length = dataset.input.elements();
  std::vector<std::int64_t> tokens;
  for (const std::int64_t index : indices) {
    for (std::int64_t i = index * length; i < (index + 1) * length; ++i) {
      tokens.push_back(token_at(dataset, i));
      batch.targets.push_back(token_at(dataset, i + 1));
    }
  }
  const std::span<const std::byte> bytes = std::as_bytes(std::span(tokens));
  batch.values.assign(bytes.begin(), bytes.end());
}

}  // namespace

Dataset Dataset::of_bytes(InputShape input, std::vector<std::uint8_t> values,
                          std::vector<std::int32_t> labels) {
  Dataset dataset;
  dataset.input = std::move(input);
  auto kept = std::make_shared<const std::vector<std::uint8_t>>(std::move(values));
  dataset.values = std::as_bytes(std::span(*kept));
  dataset.owner = std::move(kept);
  dataset.labels = std::move(labels);
  FEDQUEUE_ASSERT(dataset.values.size() == dataset.labels.size() * dataset.sample_bytes());
  if (!dataset.labels.empty()) {
    dataset.classes = *std::max_element(dataset.labels.begin(), dataset.labels.end()) + 1;
  }
  return dataset;
}

std::int64_t Dataset::samples() const {
  if (!input.tokens) return static_cast<std::int64_t>(labels.size());
  const auto tokens = static_cast<std::int64_t>(values.size() / tensor::size_of(dtype));
  return tokens == 0 ? 0 : (tokens - 1) / input.elements();
}

std::size_t Dataset::sample_bytes() const {
  return static_cast<std::size_t>(input.elements()) * tensor::size_of(dtype);
}

std::vector<std::int64_t> Dataset::histogram() const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes), 0);
  for (const std::int32_t label : labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

Dataset Dataset::subset(std::span<const std::int64_t> indices) const {
  FEDQUEUE_ASSERT(!input.tokens);
  Dataset part;
  part.input = input;
  part.dtype = dtype;
  part.classes = classes;
  auto kept = std::make_shared<std::vector<std::byte>>();
  kept->reserve(indices.size() * sample_bytes());
  part.labels.reserve(indices.size());
  for (const std::int64_t index : indices) {
    FEDQUEUE_ASSERT(index >= 0 && index < samples());
    kept->insert(kept->end(), sample(index), sample(index) + sample_bytes());
    part.labels.push_back(labels[static_cast<std::size_t>(index)]);
  }
  part.values = *kept;
  part.owner = std::move(kept);
  return part;
}

std::string Dataset::text() const {
  return std::to_string(classes) + (input.tokens ? " words in " : " classes of ") + input.text();
}

Batch gather(const Dataset& dataset, std::span<const std::int64_t> indices) {
  Batch batch;
  batch.input = dataset.input;
  batch.dtype = dataset.input.tokens ? tensor::DType::i64 : dataset.dtype;
  batch.samples = static_cast<std::int64_t>(indices.size());
  if (dataset.input.tokens) {
    gather_tokens(dataset, indices, batch);
    return batch;
  }
  batch.values.resize(indices.size() * dataset.sample_bytes());
  batch.targets.reserve(indices.size());
  std::byte* out = batch.values.data();
  for (const std::int64_t index : indices) {
    std::memcpy(out, dataset.sample(index), dataset.sample_bytes());
    out += dataset.sample_bytes();
    batch.targets.push_back(dataset.labels[static_cast<std::size_t>(index)]);
  }
  return batch;
}

Batch gather(const Dataset& dataset, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
  std::iota(indices.begin(), indices.end(), begin);
  return gather(dataset, indices);
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
  const std::size_t dimensions = images->shape.size();
  if (dimensions < 3 || dimensions > 4 || labels->shape.size() != 1) {
    return Error{Code::data,
                 where + "expected images with 3 or 4 dimensions and labels with 1, got " +
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
  InputShape input;
  input.sizes.assign(images->shape.begin() + 1, images->shape.end());
  if (dimensions == 3) input.sizes.insert(input.sizes.begin(), 1);
  return Dataset::of_bytes(std::move(input), std::move(images->bytes),
                           {labels->bytes.begin(), labels->bytes.end()});
}

Status write_dataset(const std::filesystem::path& directory, Split split, const Dataset& dataset) {
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) return storage_error("create directory " + directory.string(), failed.value());
  FEDQUEUE_ASSERT(dataset.dtype == tensor::DType::u8 && dataset.classes <= 256);
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

}  // namespace fedqueue
