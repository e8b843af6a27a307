// Samples in memory or mapped from files, and the directory they come from.
//
// A dataset is labelled tensors of one shape (images are u8 or f32, other tensors f32), or a stream
// of tokens that is cut into stretches: sample i is tokens [i·n, i·n + n), and what is to be
// predicted are the tokens one further.
//
// A dataset directory holds `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, and for the
// held-out split the same with `t10k`, each plain or with `.gz`. A loaded dataset is never empty,
// and its values and labels agree in number.
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

struct Dataset {
  InputShape input;
  tensor::DType dtype = tensor::DType::u8;  // of the values; tokens are u16 or i32
  std::int64_t classes = 0;  // largest label + 1 (a part may hold fewer than the whole); vocabulary
  std::span<const std::byte> values;  // samples() × input; of tokens at least one more than that
  std::shared_ptr<const void> owner;  // of the values
  std::vector<std::int32_t> labels;   // samples(); none for tokens

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

// REQUIRES: each index is below samples().
[[nodiscard]] Batch gather(const Dataset& dataset, std::span<const std::int64_t> indices);
// Samples [begin, end).
[[nodiscard]] Batch gather(const Dataset& dataset, std::int64_t begin, std::int64_t end);

enum class Split { train, held_out };

// Reads one split. A missing dataset names the package or option that cures it.
Result<Dataset> load_dataset(const std::filesystem::path& directory, Split split);

// Writes the two plain IDX files of a split, making the directory if needed.
// REQUIRES: u8 values of at most three sizes, labels below 256.
Status write_dataset(const std::filesystem::path& directory, Split split, const Dataset& dataset);

}  // namespace fedqueue
