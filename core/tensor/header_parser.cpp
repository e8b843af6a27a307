// parse_header: an event-driven reading of the JSON, so that a hostile header of the largest legal
// size costs no more memory than its own text, and duplicate keys are seen rather than overwritten.
#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_set>

#include "core/base/text.h"
#include "core/tensor/manifest.h"

namespace fedqueue::tensor {
namespace {

using Json = nlohmann::json;

// Names come from strangers and may be as long as the header; a message shows their beginning.
std::string shown(const std::string& name) {
  constexpr std::size_t length_max = 120;
  if (name.size() <= length_max) return "'" + name + "'";
  std::size_t end = length_max;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
  return "'" + name.substr(0, end) + "…'";
}

bool has_control_character(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return code < 0x20 || code == 0x7f;
  });
}

// The handler of the parser's events. Levels: 0 outside, 1 the header, 2 one tensor or the
// metadata, 3 a shape or a pair of offsets. Every member function answers whether to go on.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(std::int64_t value) override {
    return unexpected("the negative number " + std::to_string(value));
  }
  bool number_unsigned(std::uint64_t value) override {
    if (level_ != 3) return unexpected("a number");
    if (field_ == Field::shape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return fail("the dimension " + std::to_string(value) + " of " + where() +
                    " is beyond 64 bits");
      }
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (offsets_seen_ == 2)
      return fail("data_offsets of " + where() + " has more than two numbers");
    (offsets_seen_++ == 0 ? tensor_.begin : tensor_.end) = value;
    return true;
  }
  bool number_float(double, const std::string& text) override {
    return unexpected("the number " + text.substr(0, 40));
  }
  bool string(std::string& value) override {
    if (level_ == 2 && in_metadata_) {
      manifest_.metadata[std::move(metadata_key_)] = std::move(value);
      return true;
    }
    if (level_ == 2 && field_ == Field::dtype) {
      const std::optional<DType> dtype = parse_dtype(value);
      if (!dtype) return fail(where() + " has the unknown type " + shown(value));
      tensor_.dtype = *dtype;
      return true;
    }
    return unexpected("a string");
  }
  bool binary(Json::binary_t&) override { return unexpected("binary data"); }

  bool start_object(std::size_t) override {
    if (level_ == 0) {
      level_ = 1;
      return true;
    }
    if (level_ != 1) return unexpected("an object");
    level_ = 2;
    return true;
  }
  bool key(std::string& name) override {
    if (level_ == 1) return top_key(name);
    if (in_metadata_) {
      if (manifest_.metadata.contains(name)) {
        return fail("the metadata has two entries " + shown(name));
      }
      metadata_key_ = std::move(name);
      return true;
    }
    return tensor_key(name);
  }
  bool end_object() override {
    --level_;
    if (level_ == 0 || in_metadata_) return true;
    if (seen_ != 7) return fail(where() + " lacks one of dtype, shape and data_offsets");
    if (offsets_seen_ != 2) return fail("data_offsets of " + where() + " has not two numbers");
    manifest_.tensors.push_back(std::move(tensor_));
    return true;
  }
  bool start_array(std::size_t) override {
    if (level_ != 2 || in_metadata_ || (field_ != Field::shape && field_ != Field::offsets)) {
      return unexpected("an array");
    }
    level_ = 3;
    return true;
  }
  bool end_array() override {
    level_ = 2;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    return fail("it is not valid JSON in UTF-8 at byte " + std::to_string(position));
  }

  [[nodiscard]] const std::string& problem() const { return problem_; }
  [[nodiscard]] Manifest take() { return std::move(manifest_); }

 private:
  enum class Field { none, dtype, shape, offsets };

  bool fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return false;
  }
  bool unexpected(const std::string& what) {
    if (level_ == 0) return fail("it is not a JSON object");
    return fail(where() + " holds " + what + " where the format has none");
  }
  [[nodiscard]] std::string where() const {
    if (in_metadata_) return "the metadata";
    return "tensor " + shown(name_);
  }

  bool top_key(std::string& name) {
    in_metadata_ = name == "__metadata__";
    if (!names_.insert(name).second) return fail("the key " + shown(name) + " appears twice");
    if (has_control_character(name)) return fail("a tensor's name holds a control character");
    name_ = name;
    tensor_ = TensorInfo{};
    tensor_.name = std::move(name);
    field_ = Field::none;
    seen_ = 0;
    offsets_seen_ = 0;
    return true;
  }
  bool tensor_key(const std::string& name) {
    unsigned bit = 0;
    if (name == "dtype") {
      field_ = Field::dtype;
      bit = 1;
    } else if (name == "shape") {
      field_ = Field::shape;
      bit = 2;
    } else if (name == "data_offsets") {
      field_ = Field::offsets;
      bit = 4;
    } else {
      return fail(where() + " has the unknown property " + shown(name));
    }
    if ((seen_ & bit) != 0) return fail(where() + " has two properties " + shown(name));
    seen_ |= bit;
    return true;
  }

  Manifest manifest_;
  std::unordered_set<std::string> names_;
  std::string problem_;
  std::string name_;
  std::string metadata_key_;
  TensorInfo tensor_;
  Field field_ = Field::none;
  unsigned seen_ = 0;
  int offsets_seen_ = 0;
  int level_ = 0;
  bool in_metadata_ = false;
};

// Sorts the tensors by their place and finds what is wrong with the places; empty if nothing.
std::string check_places(Manifest& manifest) {
  std::sort(manifest.tensors.begin(), manifest.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  std::uint64_t covered = 0;
  for (const TensorInfo& tensor : manifest.tensors) {
    const std::string named = "tensor " + shown(tensor.name);
    if (tensor.begin > tensor.end) return named + " ends before it begins";
    if (tensor.end > manifest.data_bytes) {
      return named + " ends at byte " + std::to_string(tensor.end) + " of a data section of " +
             std::to_string(manifest.data_bytes);
    }
    if (tensor.begin < covered) return named + " overlaps the tensor before it";
    if (tensor.begin > covered) {
      return "there is a hole of " + std::to_string(tensor.begin - covered) + " bytes before " +
             named;
    }
    const std::optional<std::uint64_t> bytes = bytes_of(tensor.dtype, tensor.shape);
    if (!bytes) return named + " is larger than 64 bits can count";
    if (*bytes != tensor.bytes()) {
      return named + " should be " + std::to_string(*bytes) + " bytes long but has " +
             std::to_string(tensor.bytes());
    }
    covered = tensor.end;
  }
  if (covered != manifest.data_bytes) {
    return "the tensors cover " + std::to_string(covered) + " bytes of a data section of " +
           std::to_string(manifest.data_bytes);
  }
  return {};
}

Error format_error(const std::string& problem) {
  return {Code::model_format, "read a safetensors header: " + problem,
          "Write the file again with a safetensors library."};
}

}  // namespace

Result<std::uint64_t> header_length(std::span<const std::byte> prefix, std::uint64_t file_size,
                                    std::uint64_t header_bytes_max) {
  if (file_size < 8 || prefix.size() < 8) {
    return format_error("the file is shorter than the 8 bytes of the header's length");
  }
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = (length << 8) | std::to_integer<unsigned>(prefix[i]);
  if (length == 0) return format_error("the header is empty");
  if (length > header_bytes_max) {
    return format_error("the header claims " + std::to_string(length) + " bytes, more than the " +
                        std::to_string(header_bytes_max) + " allowed");
  }
  if (length > file_size - 8) {
    return format_error("the header claims " + std::to_string(length) + " bytes in a file of " +
                        std::to_string(file_size));
  }
  return length + 8;
}

Result<Manifest> parse_header(std::span<const std::byte> prefix, std::uint64_t file_size,
                              std::uint64_t header_bytes_max) {
  const Result<std::uint64_t> length = header_length(prefix, file_size, header_bytes_max);
  if (!length) return length.error();
  if (prefix.size() < *length) {
    return format_error("it ends after " + std::to_string(prefix.size()) + " of " +
                        std::to_string(*length) + " bytes");
  }
  const auto* text = reinterpret_cast<const char*>(prefix.data()) + 8;
  if (*text != '{') return format_error("it is not a JSON object");

  HeaderReader reader;
  const bool parsed = Json::sax_parse(text, text + (*length - 8), &reader);
  if (!parsed || !reader.problem().empty()) return format_error(reader.problem());
  Manifest manifest = reader.take();
  manifest.header_bytes = *length;
  manifest.data_bytes = file_size - *length;
  if (std::string problem = check_places(manifest); !problem.empty()) return format_error(problem);
  return manifest;
}

}  // namespace fedqueue::tensor
