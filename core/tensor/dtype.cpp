#include "core/tensor/dtype.h"

#include <array>

#include "core/base/assert.h"

namespace fedqueue::tensor {
namespace {

struct Properties {
  DType dtype;
  std::size_t size;
  std::string_view name;
  std::string_view wire_name;
};

constexpr std::array<Properties, 13> table{{
    {DType::f64, 8, "f64", "F64"},
    {DType::f32, 4, "f32", "F32"},
    {DType::f16, 2, "f16", "F16"},
    {DType::bf16, 2, "bf16", "BF16"},
    {DType::i64, 8, "i64", "I64"},
    {DType::i32, 4, "i32", "I32"},
    {DType::i16, 2, "i16", "I16"},
    {DType::i8, 1, "i8", "I8"},
    {DType::u64, 8, "u64", "U64"},
    {DType::u32, 4, "u32", "U32"},
    {DType::u16, 2, "u16", "U16"},
    {DType::u8, 1, "u8", "U8"},
    {DType::boolean, 1, "bool", "BOOL"},
}};

const Properties& properties_of(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  FEDQUEUE_ASSERT(index < table.size() && table[index].dtype == dtype);
  return table[index];
}

}  // namespace

std::size_t size_of(DType dtype) { return properties_of(dtype).size; }
std::string_view name_of(DType dtype) { return properties_of(dtype).name; }
std::string_view wire_name_of(DType dtype) { return properties_of(dtype).wire_name; }

std::optional<DType> parse_dtype(std::string_view wire_name) {
  for (const Properties& entry : table) {
    if (entry.wire_name == wire_name) return entry.dtype;
  }
  return std::nullopt;
}

}  // namespace fedqueue::tensor
