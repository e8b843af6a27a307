#include "core/tensor/control.h"

#include <algorithm>
#include <vector>

#include "core/base/assert.h"

namespace fedqueue::tensor {
namespace {

constexpr std::size_t piece_bytes = 1u << 20;

Result<Manifest> rearranged(const Manifest& model, bool add) {
  std::vector<TensorInfo> tensors;
  for (const TensorInfo& tensor : model.tensors) {
    if (is_control(tensor)) continue;
    tensors.push_back(tensor);
    if (add && is_float(tensor.dtype) && !model.is_buffer(tensor.name)) {
      tensors.push_back({control_name(tensor.name), DType::f32, tensor.shape, 0, 0});
    }
  }
  return lay_out(std::move(tensors), model.metadata);
}

}  // namespace

std::string control_name(std::string_view parameter) {
  return std::string(control_prefix) + std::string(parameter);
}

bool has_controls(const Manifest& model) {
  return std::any_of(model.tensors.begin(), model.tensors.end(), is_control);
}

Result<Manifest> with_controls(const Manifest& model) { return rearranged(model, true); }
Result<Manifest> without_controls(const Manifest& model) { return rearranged(model, false); }

Result<Manifest> controls_of(const Manifest& model) {
  Result<Manifest> with = with_controls(model);
  if (!with) return with;
  std::erase_if(with->tensors, [](const TensorInfo& tensor) { return !is_control(tensor); });
  return lay_out(std::move(with->tensors));
}

Result<WrittenFile> copy_tensors(const Reader& from, const Manifest& layout,
                                 const std::filesystem::path& to) {
  Result<Writer> writer = Writer::create(to, layout);
  if (!writer) return writer.error();
  const auto index = from.manifest().index();
  std::vector<std::byte> buffer(piece_bytes);
  for (const TensorInfo& tensor : layout.tensors) {
    const auto found = index.find(tensor.name);
    const TensorInfo* source =
        found == index.end() ? nullptr : &from.manifest().tensors[found->second];
    FEDQUEUE_ASSERT(source == nullptr || source->bytes() == tensor.bytes());
    if (source == nullptr) std::fill(buffer.begin(), buffer.end(), std::byte{0});
    for (std::uint64_t at = 0; at < tensor.bytes(); at += buffer.size()) {
      const auto piece =
          std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), tensor.bytes() - at));
      if (source != nullptr) {
        if (Status read = from.read(source->begin + at, piece); !read) return read.error();
      }
      if (Status written = writer->write(piece); !written) return written.error();
    }
  }
  return writer->finish();
}

}  // namespace fedqueue::tensor
