#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "core/base/text.h"
#include "fedclient/data/formats.h"

namespace fedqueue {
namespace {

constexpr std::int64_t kLabelMax = 999'999;
constexpr std::size_t kDimensionsMax = 9;
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;
constexpr const char* kCure =
    "Write inputs (u8 or f32, [n, …]) and targets (i64, i32 or u8, [n]); docs/training.md shows "
    "how.";

std::string file_name(Split split) {
  return split == Split::train ? "train.safetensors" : "held_out.safetensors";
}

std::string files(Split split) { return file_name(split); }

bool present(const std::filesystem::path& directory, Split split) {
  return file_exists(directory / file_name(split));
}

std::int64_t integer_at(tensor::DType dtype, const std::byte* at) {
  if (dtype == tensor::DType::u8) return static_cast<std::int64_t>(*at);
  if (dtype == tensor::DType::i32) {
    std::int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  std::int64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

Status check_structure(const std::filesystem::path& path, const tensor::Manifest& manifest) {
  const tensor::TensorInfo* inputs = manifest.find("inputs");
  const tensor::TensorInfo* targets = manifest.find("targets");
  if (!inputs || !targets) {
    return data_error(
        path, std::string("it has no tensor '") + (inputs ? "targets" : "inputs") + "'", kCure);
  }
  if ((inputs->dtype != tensor::DType::u8 && inputs->dtype != tensor::DType::f32) ||
      inputs->shape.size() < 2 || inputs->shape.size() > kDimensionsMax) {
    return data_error(path, "inputs are " + tensor::describe(*inputs), kCure);
  }
  const bool integers = targets->dtype == tensor::DType::u8 ||
                        targets->dtype == tensor::DType::i32 ||
                        targets->dtype == tensor::DType::i64;
  if (!integers || targets->shape.size() != 1)
    return data_error(path, "targets are " + tensor::describe(*targets), kCure);
  if (inputs->shape[0] != targets->shape[0]) {
    return data_error(path,
                      std::to_string(inputs->shape[0]) + " inputs but " +
                          std::to_string(targets->shape[0]) + " targets",
                      kCure);
  }
  if (inputs->elements() == 0 && inputs->shape[0] > 0)
    return data_error(path, "inputs are " + tensor::describe(*inputs) + ", which is nothing",
                      kCure);
  return {};
}

Result<Dataset> load(const std::filesystem::path& directory, Split split) {
  const std::filesystem::path path = directory / file_name(split);
  const Result<tensor::Reader> reader = tensor::Reader::open(path);
  if (!reader) return Error{Code::data, reader.error().message, "Fetch or make the file again."};
  const tensor::Manifest& manifest = reader->manifest();
  if (Status status = check_structure(path, manifest); !status) return status.error();
  const tensor::TensorInfo& inputs = *manifest.find("inputs");
  const tensor::TensorInfo& targets = *manifest.find("targets");
  Result<tensor::MappedData> mapped = reader->map();
  if (!mapped) return mapped.error();
  auto kept = std::make_shared<const tensor::MappedData>(std::move(*mapped));

  Dataset dataset;
  dataset.input.sizes.assign(inputs.shape.begin() + 1, inputs.shape.end());
  dataset.dtype = inputs.dtype;
  dataset.values = kept->bytes(inputs);
  dataset.labels.reserve(targets.elements());
  const std::span<const std::byte> raw = kept->bytes(targets);
  for (std::size_t at = 0; at < raw.size(); at += tensor::size_of(targets.dtype)) {
    const std::int64_t label = integer_at(targets.dtype, raw.data() + at);
    if (label < 0 || label > kLabelMax) {
      return data_error(path,
                        "sample " + std::to_string(dataset.labels.size()) + " has the target " +
                            std::to_string(label),
                        "Targets are classes, from 0 to " + std::to_string(kLabelMax) + ".");
    }
    dataset.labels.push_back(static_cast<std::int32_t>(label));
    dataset.classes = std::max(dataset.classes, label + 1);
  }
  dataset.owner = std::move(kept);
  dataset.mapped = true;
  return dataset;
}

// In pieces, since the whole may be larger than memory.
Status write_inputs(tensor::Writer& writer, const Dataset& dataset,
                    std::span<const std::int64_t> samples) {
  const std::size_t step = std::max<std::size_t>(1, kPieceBytes / dataset.sample_bytes());
  for (std::size_t done = 0; done < samples.size(); done += step) {
    const Batch batch =
        gather(dataset, samples.subspan(done, std::min(step, samples.size() - done)));
    if (Status status = writer.write(batch.values); !status) return status;
  }
  return {};
}

Status write_targets(tensor::Writer& writer, const Dataset& dataset,
                     std::span<const std::int64_t> samples) {
  std::vector<std::int64_t> targets;
  for (const std::int64_t index : samples)
    targets.push_back(dataset.labels[static_cast<std::size_t>(index)]);
  return writer.write(std::as_bytes(std::span(targets)));
}

Status write(const std::filesystem::path& directory, Split split, const Dataset& dataset,
             std::span<const std::int64_t> samples) {
  std::vector<std::int64_t> all;
  if (samples.empty()) {
    all.resize(static_cast<std::size_t>(dataset.samples()));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    samples = all;
  }
  const auto count = static_cast<std::int64_t>(samples.size());
  tensor::TensorInfo inputs{"inputs", dataset.dtype, {count}};
  inputs.shape.insert(inputs.shape.end(), dataset.input.sizes.begin(), dataset.input.sizes.end());
  Result<tensor::Manifest> layout =
      tensor::lay_out({inputs, {"targets", tensor::DType::i64, {count}}});
  if (!layout) return layout.error();
  const std::filesystem::path path = directory / file_name(split);
  std::filesystem::path temporary = path;
  temporary += ".tmp." + std::to_string(::getpid());
  Result<tensor::Writer> writer = tensor::Writer::create(temporary, std::move(*layout));
  if (!writer) return writer.error();
  for (const tensor::TensorInfo& info : writer->manifest().tensors) {
    const Status status = info.name == "inputs" ? write_inputs(*writer, dataset, samples)
                                                : write_targets(*writer, dataset, samples);
    if (!status) return status;
  }
  const Result<tensor::WrittenFile> written = writer->finish();
  if (!written) return written.error();
  return writer->commit(path);
}

}  // namespace

FormatEntry safetensors_format() {
  return {DataFormat::safetensors, "safetensors", files, present, load, write};
}

}  // namespace fedqueue
