// Samples in memory, mapped from files or read by a plugin, and the directory they come from.
//
// A dataset is labelled tensors of one shape, u8 or f32, or a stream of tokens that is cut into
// stretches: sample i is tokens [i·n, i·n + n), and what is to be predicted are the tokens one
// further.
//
// A dataset directory holds one format, recognised by its files (docs/training.md). Large ones are
// mapped, not read: nobody may shorten their files meanwhile. A loaded dataset is never empty, its
// values and labels agree in number, and no label is negative. Whether values are finite and tokens
// are words of the vocabulary is seen when they are read: read_batch().
//
// Thread safety: a Dataset never changes and may be read from any thread. Copies share the values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/tensor/dtype.h"
#include "fedclient/data/input_shape.h"

namespace fedqueue {

// Where Debian's package puts Fashion-MNIST.
inline constexpr const char* kDatasetDirectoryDefault = "/usr/share/datasets/fashion-mnist";

// Samples that are neither in memory nor in a file of a known format.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  // The values of these samples, one after the other. Called from several threads at once.
  // REQUIRES: each index is below samples(); out.size() == indices.size() × sample_bytes().
  virtual Status read(std::span<const std::int64_t> indices, std::span<std::byte> out) const = 0;
};

struct Dataset {
  InputShape input;
  tensor::DType dtype = tensor::DType::u8;  // of the values; tokens are u16 or i32
  std::int64_t classes = 0;  // largest label + 1 (a part may hold fewer than the whole); vocabulary
  std::span<const std::byte> values;  // samples() × input; of tokens at least one more than that
  std::shared_ptr<const void> owner;  // of the values
  bool mapped = false;                // the values are a mapped file's, on disk until they are read
  std::shared_ptr<const SampleSource> source;  // if there is one, in place of the values
  std::vector<std::int32_t> labels;  // samples(); none for tokens, which load with a length of 1

  // REQUIRES: values.size() == labels.size() × input.elements().
  static Dataset of_bytes(InputShape input, std::vector<std::uint8_t> values,
                          std::vector<std::int32_t> labels);

  [[nodiscard]] std::int64_t samples() const;
  [[nodiscard]] std::size_t sample_bytes() const;
  [[nodiscard]] const std::byte* sample(std::int64_t index) const {
    return values.data() + static_cast<std::size_t>(index) * sample_bytes();
  }
  // Samples per label, `classes` entries. REQUIRES: not tokens; also below.
  [[nodiscard]] std::vector<std::int64_t> histogram() const;
  // The samples at these indices, in this order. REQUIRES: each index is below samples().
  [[nodiscard]] Dataset subset(std::span<const std::int64_t> indices) const;
  // Of tokens: those from `begin` to before `end`. REQUIRES: tokens; that they are there.
  [[nodiscard]] Dataset stretch(std::int64_t begin, std::int64_t end) const;
  [[nodiscard]] std::int64_t tokens() const;
  // Cuts a stream of tokens to the length that a model takes; leaves other datasets as they are.
  // Code::data if there are too few tokens for a single sample.
  Status cut_for(const InputShape& model_input);
  // "10 classes of 1x28x28".
  [[nodiscard]] std::string text() const;
};

// Samples gathered for one step.
struct Batch {
  InputShape input;
  tensor::DType dtype = tensor::DType::u8;  // u8, f32, or i64 for tokens
  std::int64_t samples = 0;
  std::vector<std::byte> values;
  std::vector<std::int64_t> targets;  // a label for each sample, or the token to predict for each
};

// REQUIRES: each index is below samples(); values, no source.
[[nodiscard]] Batch gather(const Dataset& dataset, std::span<const std::int64_t> indices);
// Samples [begin, end).
[[nodiscard]] Batch gather(const Dataset& dataset, std::int64_t begin, std::int64_t end);

// The same wherever the samples are, looked at: Code::data when a value is not finite or a token is
// no word, naming the first sample that has it, or when a source fails.
[[nodiscard]] Result<Batch> read_batch(const Dataset& dataset,
                                       std::span<const std::int64_t> indices);

enum class Split { train, held_out };

enum class DataFormat { idx, cifar10, cifar100, safetensors, tokens };
// "idx", "safetensors", …
[[nodiscard]] const char* name_of(DataFormat format);

// Code::data unless there is exactly one dataset with this split.
Result<DataFormat> find_format(const std::filesystem::path& directory, Split split);

// Reads one split. A missing dataset names the package or option that cures it.
Result<Dataset> load_dataset(const std::filesystem::path& directory, Split split);

// Writes a split, or these samples of it, in files that are there whole or not at all, making the
// directory if needed. REQUIRES: a dataset of that format (for idx: u8 values of at most three
// sizes, labels below 256); no `samples` of tokens.
Status write_dataset(const std::filesystem::path& directory, Split split, const Dataset& dataset,
                     DataFormat format = DataFormat::idx,
                     std::span<const std::int64_t> samples = {});

}  // namespace fedqueue
