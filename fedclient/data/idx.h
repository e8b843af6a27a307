// IDX files, the format of MNIST and its relatives, plain or compressed with gzip.
//
// A file is a big-endian header (two zero bytes, the element type, the number of dimensions, then
// each dimension as 32 bits) followed by the elements. Only unsigned bytes are read here, which is
// what every published image set of this family uses. A file that is cut short, has bytes left
// over, or claims more than it holds is refused with its name.
// Source: the description of the format by LeCun, Cortes and Burges.
//
// Thread safety: the functions may be called from any thread on distinct paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

struct IdxArray {
  std::vector<std::int64_t> shape;  // one to four dimensions
  std::vector<std::uint8_t> bytes;  // product(shape) elements, last dimension fastest
};

// The array in a plain or gzip file.
Result<IdxArray> read_idx(const std::filesystem::path& path);

// Writes a plain file, whole or not at all. REQUIRES: product(shape) == bytes.size(), at most four
// dimensions, each below 2^32.
Status write_idx(const std::filesystem::path& path, const std::vector<std::int64_t>& shape,
                 std::span<const std::uint8_t> bytes);

}  // namespace fedqueue
