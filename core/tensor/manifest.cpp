#include "core/tensor/manifest.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/base/assert.h"
#include "core/base/text.h"

namespace fedqueue::tensor {
namespace {

void write_little_endian(std::string& text, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>((value >> (8 * i)) & 0xff);
}

std::string json_string(const std::string& text) { return nlohmann::json(text).dump(); }

}  // namespace

const TensorInfo* Manifest::find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorInfo& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::unordered_map<std::string_view, std::size_t> Manifest::index() const {
  std::unordered_map<std::string_view, std::size_t> positions;
  positions.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) positions.emplace(tensors[i].name, i);
  return positions;
}

std::vector<std::string> Manifest::buffers() const {
  const auto found = metadata.find(buffers_key);
  if (found == metadata.end() || found->second.empty()) return {};
  return split(found->second, ',');
}

bool Manifest::is_buffer(std::string_view name) const {
  const std::vector<std::string> names = buffers();
  return std::find(names.begin(), names.end(), name) != names.end();
}

void Manifest::set_buffers(const std::vector<std::string>& names) {
  if (names.empty()) {
    metadata.erase(buffers_key);
  } else {
    metadata[buffers_key] = join(names, ",");
  }
}

bool is_counter(const TensorInfo& tensor) {
  return is_integer(tensor.dtype) && tensor.name.ends_with("num_batches_tracked");
}

bool is_control(const TensorInfo& tensor) {
  return is_float(tensor.dtype) && tensor.name.starts_with(control_prefix);
}

std::optional<std::uint64_t> bytes_of(DType dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = size_of(dtype);
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    empty = empty || dimension == 0;
  }
  if (empty) return 0;  // whatever the other dimensions are
  for (const std::int64_t dimension : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(dimension), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

std::string build_header(const Manifest& manifest) {
  std::vector<const TensorInfo*> order;
  order.reserve(manifest.tensors.size());
  for (const TensorInfo& tensor : manifest.tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return std::tie(a->begin, a->end, a->name) < std::tie(b->begin, b->end, b->name);
  });

  std::string text(8, '\0');
  text += '{';
  if (!manifest.metadata.empty()) {
    text += "\"__metadata__\":" + nlohmann::json(manifest.metadata).dump();
  }
  for (const TensorInfo* tensor : order) {
    if (text.size() > 9) text += ',';
    text += json_string(tensor->name);
    text += ":{\"dtype\":\"";
    text += wire_name_of(tensor->dtype);
    text += "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor->shape.size(); ++i) {
      if (i > 0) text += ',';
      text += std::to_string(tensor->shape[i]);
    }
    text += "],\"data_offsets\":[" + std::to_string(tensor->begin) + ',' +
            std::to_string(tensor->end) + "]}";
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  write_little_endian(text, text.size() - 8);
  return text;
}

Result<Manifest> lay_out(std::vector<TensorInfo> tensors,
                         std::map<std::string, std::string> metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    const std::size_t a_size = size_of(a.dtype);
    const std::size_t b_size = size_of(b.dtype);
    return std::tie(b_size, a.name) < std::tie(a_size, b.name);
  });
  Manifest manifest;
  std::uint64_t offset = 0;
  for (TensorInfo& tensor : tensors) {
    const std::optional<std::uint64_t> bytes = bytes_of(tensor.dtype, tensor.shape);
    tensor.begin = offset;
    if (!bytes || __builtin_add_overflow(offset, *bytes, &offset) ||
        offset > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return Error{Code::model_format,
                   "lay out tensor '" + tensor.name + "': " + describe(tensor) +
                       " has a negative dimension or is larger than 64 bits can count",
                   ""};
    }
    tensor.end = offset;
  }
  manifest.tensors = std::move(tensors);
  manifest.metadata = std::move(metadata);
  manifest.data_bytes = offset;
  if (manifest.index().size() != manifest.tensors.size()) {
    return Error{Code::model_format, "lay out a model: two tensors have the same name",
                 "Give tensors that share memory one name and list the others as aliases."};
  }
  manifest.header_bytes = build_header(manifest).size();
  return manifest;
}

std::string describe(const TensorInfo& tensor) {
  std::string text(name_of(tensor.dtype));
  text += " [";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

std::vector<std::string> differences(const Manifest& expected, const Manifest& got) {
  std::vector<std::string> sentences;
  const auto got_index = got.index();
  const auto expected_index = expected.index();
  for (const TensorInfo& tensor : expected.tensors) {
    const auto found = got_index.find(tensor.name);
    if (found == got_index.end()) {
      sentences.push_back("tensor '" + tensor.name + "': expected " + describe(tensor) +
                          ", but it is missing");
      continue;
    }
    const TensorInfo& other = got.tensors[found->second];
    if (other.dtype != tensor.dtype || other.shape != tensor.shape) {
      sentences.push_back("tensor '" + tensor.name + "': expected " + describe(tensor) + ", got " +
                          describe(other));
    }
  }
  for (const TensorInfo& tensor : got.tensors) {
    if (!expected_index.contains(tensor.name)) {
      sentences.push_back("tensor '" + tensor.name + "': not part of the model, got " +
                          describe(tensor));
    }
  }
  return sentences;
}

std::string summary(const std::vector<std::string>& sentences, std::size_t shown) {
  std::vector<std::string> first(
      sentences.begin(),
      sentences.begin() + static_cast<std::ptrdiff_t>(std::min(shown, sentences.size())));
  std::string text = join(first, "; ");
  if (sentences.size() > shown) {
    text += "; and " + std::to_string(sentences.size() - shown) + " more";
  }
  return text;
}

}  // namespace fedqueue::tensor
