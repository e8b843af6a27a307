#include "fedclient/data/input_shape.h"

#include "core/base/text.h"

namespace fedqueue {
namespace {

constexpr std::int64_t kElementsMax = std::int64_t{1} << 31;
constexpr std::string_view kTokens = "tokens:";

Error unreadable(const std::string& text) {
  return {
      Code::usage, "read the input shape '" + text + "': it is no list of sizes",
      "Write 1x28x28 for images (channels, rows, columns), 16 for vectors, tokens:128 for text."};
}

}  // namespace

std::int64_t InputShape::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product *= size;
  return product;
}

std::string InputShape::text() const {
  std::vector<std::string> parts;
  for (const std::int64_t size : sizes) parts.push_back(std::to_string(size));
  return (tokens ? std::string(kTokens) : "") + join(parts, "x");
}

Result<InputShape> parse_input_shape(const std::string& text) {
  InputShape shape;
  shape.tokens = text.starts_with(kTokens);
  const std::vector<std::string> parts =
      split(shape.tokens ? text.substr(kTokens.size()) : text, 'x');
  if (parts.empty() || parts.size() > 8 || (shape.tokens && parts.size() != 1))
    return unreadable(text);
  shape.sizes.clear();
  std::int64_t product = 1;
  for (const std::string& part : parts) {
    const auto size = parse_integer(part);
    if (!size || *size < 1 || *size > kElementsMax / product) return unreadable(text);
    product *= *size;
    shape.sizes.push_back(*size);
  }
  return shape;
}

}  // namespace fedqueue
