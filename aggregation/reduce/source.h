// One input file of a reduction, read by pieces from many threads.
//
// Pieces are copied from the page cache into buffers that stay in the processor's cache. Mapping
// the files was measured to be no faster (making pages present costs what copying costs), and it
// would turn a failing disk into a signal and the inputs into this process's memory.
//
// Thread safety: const functions may be called from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "aggregation/reduce/plan.h"
#include "core/base/file.h"
#include "core/base/result.h"
#include "core/tensor/manifest.h"

namespace fedqueue {

class Source {
 public:
  // Opens a file that must have the structure of `model`, which outlives the source; `role`
  // ("update", "base") is for messages. Without `keep_open` the file is opened again for every
  // piece, so that thousands of updates do not need thousands of descriptors.
  static Result<Source> open(const std::filesystem::path& path, const tensor::Manifest& model,
                             const std::string& role, bool keep_open);

  // The bytes of an item: segment s begins at out[s.item_offset]. REQUIRES: out has room for
  // item.bytes.
  [[nodiscard]] Status read_item(const Plan& plan, const Item& item,
                                 std::span<std::byte> out) const;

  // Copies elements of one tensor of the model.
  [[nodiscard]] Status read(const tensor::TensorInfo& tensor, std::size_t tensor_index,
                            std::uint64_t first_element, std::span<std::byte> out) const;

 private:
  Source() = default;
  [[nodiscard]] Status read_bytes(std::uint64_t data_offset, std::span<std::byte> out) const;

  std::filesystem::path path_;
  FileDescriptor fd_;  // empty: opened for every piece
  std::uint64_t data_begin_ = 0;
  const tensor::Manifest* model_ = nullptr;
  std::vector<std::uint64_t>
      places_;  // of the model's tensors in this file; empty: as in the model
};

}  // namespace fedqueue
