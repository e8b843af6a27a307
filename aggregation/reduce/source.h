// One input file of a reduction, read by pieces from many threads.
//
// The file is mapped, and every piece is made present with one call before it is touched: that is
// several times faster than copying from the page cache, and a disk that fails is reported as an
// error instead of a signal. Where the kernel cannot do this (before Linux 5.14), or when asked,
// pieces are copied into the caller's buffer.
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
  // Opens a file that must have the structure of `model`; `role` ("update", "base") is for
  // messages.
  static Result<Source> open(const std::filesystem::path& path, const tensor::Manifest& model,
                             const std::string& role, bool map);
  ~Source();
  Source(Source&& other) noexcept;
  Source& operator=(Source&&) = delete;

  // The bytes of an item: segment s begins at [s.item_offset]. The result points into the mapping
  // or into `buffer`, which has room for item.bytes.
  [[nodiscard]] Result<const std::byte*> view(const Plan& plan, const Item& item,
                                              std::span<std::byte> buffer) const;

  // Copies elements of one tensor of the model.
  [[nodiscard]] Status read(const tensor::TensorInfo& tensor, std::size_t tensor_index,
                            std::uint64_t first_element, std::span<std::byte> out) const;

  // Says that the items up to this offset of the model's data section are done, so that the mapping
  // does not count as this process's memory for longer than needed.
  void release(std::uint64_t data_begin, std::uint64_t data_end) const;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  Source() = default;
  void map(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t place_of(const tensor::TensorInfo& tensor,
                                       std::size_t tensor_index) const;
  [[nodiscard]] Status copy(std::uint64_t offset, std::span<std::byte> out) const;
  [[nodiscard]] Status make_present(std::uint64_t offset, std::size_t bytes) const;

  std::filesystem::path path_;
  FileDescriptor fd_;  // empty when mapped
  std::byte* mapping_ = nullptr;
  std::uint64_t file_bytes_ = 0;
  std::uint64_t data_begin_ = 0;
  const tensor::Manifest* model_ = nullptr;
  std::vector<std::uint64_t>
      places_;  // of the model's tensors in this file; empty: as in the model
};

}  // namespace fedqueue
