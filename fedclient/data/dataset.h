// Labelled images in memory, and the directory they come from.
//
// A dataset directory holds `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, and for the
// held-out split the same with `t10k`, each plain or with `.gz`. A loaded dataset is never empty,
// and its images and labels agree in number.
//
// Thread safety: a Dataset that nobody changes may be read from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

// Where Debian's package puts Fashion-MNIST.
inline constexpr const char* kDatasetDirectoryDefault = "/usr/share/datasets/fashion-mnist";

struct Dataset {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t classes = 0;          // largest label + 1; a part may hold fewer than the whole
  std::vector<std::uint8_t> images;  // samples() × rows × columns
  std::vector<std::uint8_t> labels;  // samples()

  [[nodiscard]] std::int64_t samples() const { return static_cast<std::int64_t>(labels.size()); }
  [[nodiscard]] std::int64_t pixels() const { return rows * columns; }
  [[nodiscard]] const std::uint8_t* image(std::int64_t index) const {
    return images.data() + index * pixels();
  }
  // Samples per label, `classes` entries.
  [[nodiscard]] std::vector<std::int64_t> histogram() const;
  // The samples at these indices, in this order. REQUIRES: each index is below samples().
  [[nodiscard]] Dataset subset(std::span<const std::int64_t> indices) const;
};

enum class Split { train, held_out };

// Reads one split. A missing dataset names the package or option that cures it.
Result<Dataset> load_dataset(const std::filesystem::path& directory, Split split);

// Writes the two plain IDX files of a split, making the directory if needed.
Status write_dataset(const std::filesystem::path& directory, Split split, const Dataset& dataset);

}  // namespace fedqueue
