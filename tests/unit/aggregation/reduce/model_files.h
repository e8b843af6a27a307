// Small models on disk for the tests of reduction and screening.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "aggregation/reduce/float_kernels.h"
#include "core/base/file.h"
#include "core/tensor/file.h"

namespace fedqueue {

// One tensor with its values written as doubles; whole numbers for integer types.
struct TestTensor {
  std::string name;
  tensor::DType dtype = tensor::DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<double> values;
};

inline TestTensor f32(const std::string& name, std::vector<double> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {name, tensor::DType::f32, {size}, std::move(values)};
}

inline TestTensor of_type(tensor::DType dtype, const std::string& name,
                          std::vector<double> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {name, dtype, {size}, std::move(values)};
}

inline TestTensor scalar(tensor::DType dtype, const std::string& name, double value) {
  return {name, dtype, {}, {value}};
}

template <typename T>
void put(std::vector<std::byte>& bytes, double value) {
  const T typed = static_cast<T>(value);
  const auto* begin = reinterpret_cast<const std::byte*>(&typed);
  bytes.insert(bytes.end(), begin, begin + sizeof typed);
}

inline std::vector<std::byte> encode(const TestTensor& tensor) {
  using tensor::DType;
  std::vector<std::byte> bytes;
  for (const double value : tensor.values) {
    if (is_float(tensor.dtype)) {
      bytes.resize(bytes.size() + size_of(tensor.dtype));
      store_element(tensor.dtype, bytes.data() + bytes.size() - size_of(tensor.dtype), 0, value);
      continue;
    }
    switch (tensor.dtype) {
      case DType::i64:
        put<std::int64_t>(bytes, value);
        break;
      case DType::i32:
        put<std::int32_t>(bytes, value);
        break;
      case DType::i16:
        put<std::int16_t>(bytes, value);
        break;
      case DType::i8:
        put<std::int8_t>(bytes, value);
        break;
      case DType::u64:
        put<std::uint64_t>(bytes, value);
        break;
      default:
        put<std::uint8_t>(bytes, value);
        break;
    }
  }
  return bytes;
}

inline double decode(tensor::DType dtype, const std::byte* bytes, std::size_t i) {
  using tensor::DType;
  const auto get = [&](auto value) {
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    return static_cast<double>(value);
  };
  if (is_float(dtype)) return load_element(dtype, bytes, i);
  switch (dtype) {
    case DType::i64:
      return get(std::int64_t{});
    case DType::i32:
      return get(std::int32_t{});
    case DType::i16:
      return get(std::int16_t{});
    case DType::i8:
      return get(std::int8_t{});
    case DType::u64:
      return get(std::uint64_t{});
    default:
      return get(std::uint8_t{});
  }
}

// A test with a folder of its own in which it writes and reads models.
class ModelFiles : public testing::Test {
 protected:
  using Metadata = std::map<std::string, std::string>;

  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "fedqueue-reduce-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::filesystem::path path(const std::string& name) const {
    return folder_ / (name + ".safetensors");
  }

  std::filesystem::path write(const std::string& name, const std::vector<TestTensor>& tensors,
                              const Metadata& metadata = {}) {
    std::vector<tensor::TensorInfo> infos;
    for (const TestTensor& tensor : tensors) {
      infos.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
    }
    return write_laid_out(name, tensors, *tensor::lay_out(std::move(infos), metadata));
  }

  // The same with places chosen by the test.
  std::filesystem::path write_laid_out(const std::string& name,
                                       const std::vector<TestTensor>& tensors,
                                       const tensor::Manifest& manifest) {
    auto writer = tensor::Writer::create(path(name), manifest);
    EXPECT_TRUE(writer) << writer.error().message;
    for (const tensor::TensorInfo& info : manifest.tensors) {
      for (const TestTensor& tensor : tensors) {
        if (tensor.name != info.name) continue;
        EXPECT_TRUE(writer->write(encode(tensor)));
      }
    }
    EXPECT_TRUE(writer->finish());
    return path(name);
  }

  // All values of a tensor of a file.
  static std::vector<double> values(const std::filesystem::path& file, const std::string& name) {
    const auto reader = tensor::Reader::open(file);
    EXPECT_TRUE(reader) << reader.error().message;
    const tensor::TensorInfo* info = reader->manifest().find(name);
    EXPECT_NE(info, nullptr) << name;
    std::vector<std::byte> bytes(info->bytes());
    EXPECT_TRUE(reader->read_tensor(*info, bytes));
    std::vector<double> result;
    for (std::size_t i = 0; i < info->elements(); ++i) {
      result.push_back(decode(info->dtype, bytes.data(), i));
    }
    return result;
  }

  std::filesystem::path folder_;
};

}  // namespace fedqueue
