#include <algorithm>
#include <utility>

#include "fedclient/data/formats.h"

namespace fedqueue {
namespace {

constexpr std::size_t kPixels = 3 * 32 * 32;
constexpr int kBatchesMax = 99;

struct Layout {
  std::size_t label_bytes;  // the last of them is the label
  std::int64_t classes;

  [[nodiscard]] std::size_t record() const { return label_bytes + kPixels; }
};
constexpr Layout kCifar10 = {1, 10};
constexpr Layout kCifar100 = {2, 100};

std::string batch_name(int number) { return "data_batch_" + std::to_string(number) + ".bin"; }
std::string single_name(Split split) { return split == Split::train ? "train.bin" : "test.bin"; }

std::vector<std::filesystem::path> batches(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i <= kBatchesMax; ++i) {
    if (file_exists(directory / batch_name(i))) paths.push_back(directory / batch_name(i));
  }
  return paths;
}

Status append(const std::filesystem::path& path, const Layout& layout,
              std::vector<std::uint8_t>& pixels, std::vector<std::int32_t>& labels) {
  const Result<MappedFile> file = map_file(path);
  if (!file) return file.error();
  const std::span<const std::byte> bytes = (*file)->bytes();
  if (bytes.size() % layout.record() != 0) {
    return data_error(path,
                      "the file is truncated: " + std::to_string(bytes.size()) +
                          " bytes are no multiple of the " + std::to_string(layout.record()) +
                          " of a sample",
                      "Fetch the file again, or point --dataset at another directory.");
  }
  const auto* at = reinterpret_cast<const std::uint8_t*>(bytes.data());
  for (std::size_t done = 0; done < bytes.size(); done += layout.record()) {
    const std::uint8_t label = at[done + layout.label_bytes - 1];
    if (label >= layout.classes) {
      return data_error(path,
                        "sample " + std::to_string(done / layout.record()) + " has label " +
                            std::to_string(label) + ", the format has 0 to " +
                            std::to_string(layout.classes - 1),
                        "Fetch the file again; it may be of another format.");
    }
    labels.push_back(label);
    pixels.insert(pixels.end(), at + done + layout.label_bytes, at + done + layout.record());
  }
  return {};
}

Result<Dataset> load_files(const std::vector<std::filesystem::path>& paths, const Layout& layout) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  for (const std::filesystem::path& path : paths) {
    if (Status status = append(path, layout, pixels, labels); !status) return status.error();
  }
  Dataset dataset = Dataset::of_bytes({{3, 32, 32}}, std::move(pixels), std::move(labels));
  dataset.classes = layout.classes;
  return dataset;
}

Status write_file(const std::filesystem::path& path, const Layout& layout, const Dataset& dataset,
                  std::span<const std::int64_t> samples) {
  FEDQUEUE_ASSERT(dataset.dtype == tensor::DType::u8 && dataset.sample_bytes() == kPixels);
  Result<StreamedFile> file = StreamedFile::create(path);
  if (!file) return file.error();
  const std::int64_t count =
      samples.empty() ? dataset.samples() : static_cast<std::int64_t>(samples.size());
  std::vector<std::byte> record(layout.record());
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = samples.empty() ? i : samples[static_cast<std::size_t>(i)];
    record[layout.label_bytes - 1] =
        static_cast<std::byte>(dataset.labels[static_cast<std::size_t>(index)]);
    std::copy_n(dataset.sample(index), kPixels,
                record.begin() + static_cast<std::ptrdiff_t>(layout.label_bytes));
    if (Status status = file->write(record); !status) return status;
  }
  return file->finish();
}

std::string files10(Split split) {
  return split == Split::train ? "data_batch_1.bin (CIFAR-10)" : "test_batch.bin (CIFAR-10)";
}

bool present10(const std::filesystem::path& directory, Split split) {
  return split == Split::train ? !batches(directory).empty()
                               : file_exists(directory / "test_batch.bin");
}

Result<Dataset> load10(const std::filesystem::path& directory, Split split) {
  if (split == Split::held_out) return load_files({directory / "test_batch.bin"}, kCifar10);
  const std::vector<std::filesystem::path> paths = batches(directory);
  const auto count = static_cast<int>(paths.size());
  for (int i = 1; i <= count; ++i) {
    if (!file_exists(directory / batch_name(i)))
      return data_error(directory / batch_name(i),
                        "it is missing, but " + paths.back().filename().string() + " is there",
                        "Fetch all files of the dataset.");
  }
  return load_files(paths, kCifar10);
}

Status write10(const std::filesystem::path& directory, Split split, const Dataset& dataset,
               std::span<const std::int64_t> samples) {
  return write_file(directory / (split == Split::train ? batch_name(1) : "test_batch.bin"),
                    kCifar10, dataset, samples);
}

std::string files100(Split split) { return single_name(split) + " (CIFAR-100)"; }

bool present100(const std::filesystem::path& directory, Split split) {
  return file_exists(directory / single_name(split));
}

Result<Dataset> load100(const std::filesystem::path& directory, Split split) {
  return load_files({directory / single_name(split)}, kCifar100);
}

Status write100(const std::filesystem::path& directory, Split split, const Dataset& dataset,
                std::span<const std::int64_t> samples) {
  return write_file(directory / single_name(split), kCifar100, dataset, samples);
}

}  // namespace

FormatEntry cifar10_format() {
  return {DataFormat::cifar10, "cifar10", files10, present10, load10, write10};
}

FormatEntry cifar100_format() {
  return {DataFormat::cifar100, "cifar100", files100, present100, load100, write100};
}

}  // namespace fedqueue
