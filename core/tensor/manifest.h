// What a safetensors file says about itself: which tensors, of which type and shape, where.
//
// A file is 8 bytes N (little endian), N bytes of JSON, and the data section. `parse_header` takes
// bytes from anywhere and trusts none of them: what it returns has non-overlapping tensors which
// cover the data section without holes, each as long as its shape and type say. It allocates in
// proportion to the header it was given, never to a number written in it.
//
// Thread safety: a Manifest is a plain value; the functions are pure.
// Source: the safetensors format, https://github.com/huggingface/safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/result.h"
#include "core/tensor/dtype.h"

namespace fedqueue::tensor {

// The cap of the reference implementation on N.
inline constexpr std::uint64_t header_bytes_max_default = 100'000'000;

// Metadata key: comma-separated names of the float tensors that are buffers (running statistics)
// and not parameters.
inline constexpr const char* buffers_key = "fedqueue.buffers";

struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;  // empty: one element, no dimensions
  std::uint64_t begin = 0;          // offsets within the data section
  std::uint64_t end = 0;

  [[nodiscard]] std::uint64_t bytes() const { return end - begin; }
  [[nodiscard]] std::uint64_t elements() const { return bytes() / size_of(dtype); }
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

struct Manifest {
  std::vector<TensorInfo> tensors;  // in the order of the data
  std::map<std::string, std::string> metadata;
  std::uint64_t header_bytes = 0;  // where the data section begins: 8 + N
  std::uint64_t data_bytes = 0;

  [[nodiscard]] std::uint64_t file_bytes() const { return header_bytes + data_bytes; }

  // The tensor of that name, or nullptr; looks through all of them.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const;
  // Position of every name, for many look-ups. Valid as long as the tensors are left alone.
  [[nodiscard]] std::unordered_map<std::string_view, std::size_t> index() const;

  // Names under `fedqueue.buffers`.
  [[nodiscard]] std::vector<std::string> buffers() const;
  [[nodiscard]] bool is_buffer(std::string_view name) const;
  void set_buffers(const std::vector<std::string>& names);
};

// True for integer tensors that count batches (`…num_batches_tracked`), which are merged by
// maximum.
[[nodiscard]] bool is_counter(const TensorInfo& tensor);

// Names of control variates begin so; the rest is the parameter's name (control.h).
inline constexpr std::string_view control_prefix = "fedqueue.control.";
[[nodiscard]] bool is_control(const TensorInfo& tensor);

// Header length 8 + N from the first 8 bytes of a file, checked against the file and the cap.
[[nodiscard]] Result<std::uint64_t> header_length(
    std::span<const std::byte> prefix, std::uint64_t file_size,
    std::uint64_t header_bytes_max = header_bytes_max_default);

// Parses and checks a header. `prefix` holds at least the first `header_length` bytes of the file,
// `file_size` is the size of the whole file. Failures are Code::model_format.
[[nodiscard]] Result<Manifest> parse_header(
    std::span<const std::byte> prefix, std::uint64_t file_size,
    std::uint64_t header_bytes_max = header_bytes_max_default);

// The header as bytes, one spelling for one manifest: metadata first, then the tensors in the order
// of their data (tensors without data by name), padded with spaces to a multiple of 8.
// `header_bytes` and `data_bytes` of the argument are not read.
[[nodiscard]] std::string build_header(const Manifest& manifest);

// Gives every tensor its place, widest elements first and by name among equals, so that all are
// aligned; sets header_bytes and data_bytes. Only name, dtype and shape of the tensors are read.
// Fails on duplicate names, negative dimensions and sizes beyond 64 bits.
[[nodiscard]] Result<Manifest> lay_out(std::vector<TensorInfo> tensors,
                                       std::map<std::string, std::string> metadata = {});

// One sentence per missing, extra, reshaped or retyped tensor; empty when the structures are equal.
// Offsets and metadata do not matter.
[[nodiscard]] std::vector<std::string> differences(const Manifest& expected, const Manifest& got);

// The first few of many sentences, for one error message.
[[nodiscard]] std::string summary(const std::vector<std::string>& sentences, std::size_t shown = 3);

// "f32 [128, 784]"
[[nodiscard]] std::string describe(const TensorInfo& tensor);

// Elements times element size, or nothing when negative or beyond 64 bits.
[[nodiscard]] std::optional<std::uint64_t> bytes_of(DType dtype,
                                                    const std::vector<std::int64_t>& shape);

}  // namespace fedqueue::tensor
