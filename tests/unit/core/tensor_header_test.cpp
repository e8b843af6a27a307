// Headers from strangers: every broken one is refused with its reason, none does harm.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/prng.h"
#include "core/tensor/manifest.h"

namespace fedqueue::tensor {
namespace {

using testing::HasSubstr;

std::string with_length(const std::string& json) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>((json.size() >> (8 * i)) & 0xff);
  return text + json;
}

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Result<Manifest> parse(const std::string& json, std::uint64_t data_bytes) {
  const std::string header = with_length(json);
  return parse_header(bytes_of_text(header), header.size() + data_bytes);
}

void expect_refused(const std::string& json, std::uint64_t data_bytes, const std::string& reason) {
  const Result<Manifest> manifest = parse(json, data_bytes);
  ASSERT_FALSE(manifest) << json;
  EXPECT_EQ(manifest.error().code, Code::model_format);
  EXPECT_THAT(manifest.error().message, HasSubstr(reason)) << json;
}

std::string tensor_json(const std::string& name, const std::string& dtype, const std::string& shape,
                        const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

TEST(TensorHeader, ReadsTensorsInTheOrderOfTheirData) {
  const auto manifest =
      parse("{" + tensor_json("b", "F32", "[2,3]", "[2,26]") + "," +
                tensor_json("a", "BF16", "[]", "[0,2]") + R"(,"__metadata__":{"format":"pt"}})",
            26);
  ASSERT_TRUE(manifest) << manifest.error().message;
  ASSERT_EQ(manifest->tensors.size(), 2u);
  EXPECT_EQ(manifest->tensors[0].name, "a");
  EXPECT_TRUE(manifest->tensors[0].shape.empty());
  EXPECT_EQ(manifest->tensors[0].elements(), 1u);
  EXPECT_EQ(manifest->tensors[1].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(manifest->tensors[1].bytes(), 24u);
  EXPECT_EQ(manifest->metadata.at("format"), "pt");
  EXPECT_EQ(manifest->data_bytes, 26u);
}

TEST(TensorHeader, EmptyTensorsAndEmptyModelsAreLegal) {
  const auto manifest = parse("{" + tensor_json("x", "F32", "[0]", "[0,0]") + "," +
                                  tensor_json("y", "F64", "[4,0,9223372036854775807]", "[0,0]") +
                                  "," + tensor_json("z", "I8", "[3]", "[0,3]") + "}",
                              3);
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(manifest->find("y")->elements(), 0u);
  EXPECT_TRUE(parse("{}", 0));
  EXPECT_TRUE(parse("{}      ", 0)) << "padding is part of the format";
}

TEST(TensorHeader, LengthIsChecked) {
  const std::string whole = with_length("{}");
  const auto parse_raw = [](const std::string& text, std::uint64_t file_size) {
    return parse_header(bytes_of_text(text), file_size);
  };
  EXPECT_FALSE(parse_raw("", 0));
  EXPECT_FALSE(parse_raw(whole.substr(0, 7), 7));
  EXPECT_THAT(parse_raw(with_length(""), 8).error().message, HasSubstr("empty"));
  EXPECT_THAT(parse_raw(whole, 9).error().message, HasSubstr("claims 2 bytes in a file of 9"));
  EXPECT_THAT(parse_raw(whole.substr(0, 9), 10).error().message, HasSubstr("ends after 9 of 10"));
  const std::string huge(8, '\xff');
  EXPECT_THAT(parse_raw(huge, ~std::uint64_t{0}).error().message, HasSubstr("allowed"));
  const std::string over_the_cap = with_length("{}        ");
  EXPECT_THAT(parse_header(bytes_of_text(over_the_cap), over_the_cap.size(), 9).error().message,
              HasSubstr("more than the 9 allowed"));
  EXPECT_TRUE(parse_header(bytes_of_text(over_the_cap), over_the_cap.size(), 10));
}

TEST(TensorHeader, WhatIsNotTheFormatIsRefused) {
  expect_refused("x", 0, "not a JSON object");
  expect_refused("[]", 0, "not a JSON object");
  expect_refused("  {}", 0, "not a JSON object");
  expect_refused("{", 0, "not valid JSON");
  expect_refused("{}{}", 0, "not valid JSON");
  expect_refused(R"({"a":1})", 0, "'a' holds a number");
  expect_refused(R"({"a":null})", 0, "'a' holds null");
  expect_refused(R"({"a":[[]]})", 0, "'a' holds an array");
  expect_refused(R"({"a":{}})", 0, "lacks one of");
  expect_refused(R"({"a":{"dtype":"F32","shape":[]}})", 4, "lacks one of");
  expect_refused(R"({"a":{"dtype":{"x":1}}})", 4, "holds an object");
  expect_refused(R"({"a":{"strides":[1]}})", 4, "unknown property 'strides'");
  expect_refused("{" + tensor_json("a", "F8_E5M2", "[1]", "[0,1]") + "}", 1,
                 "unknown type 'F8_E5M2'");
  expect_refused("{\"\xff\":1}", 0, "UTF-8");
  expect_refused("{\"\xed\xa0\x80\":1}", 0, "UTF-8");
  expect_refused(R"({"a\u0000b":1})", 0, "control character");
  expect_refused(R"({"__metadata__":{"a":1}})", 0, "the metadata holds a number");
  expect_refused(R"({"__metadata__":{"a":{}}})", 0, "the metadata holds an object");
  expect_refused(R"({"__metadata__":"a"})", 0, "the metadata holds a string");
  expect_refused(std::string("{\"a\":") + std::string(100000, '['), 0, "'a' holds an array");
}

TEST(TensorHeader, DuplicateKeysAreRefusedAtEveryLevel) {
  const std::string tensor = tensor_json("a", "I8", "[1]", "[0,1]");
  expect_refused("{" + tensor + "," + tensor + "}", 1, "'a' appears twice");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, "appears twice");
  expect_refused(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "two entries 'k'");
  expect_refused(R"({"a":{"dtype":"I8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1,
                 "two properties 'dtype'");
}

TEST(TensorHeader, ShapesAreChecked) {
  const auto shaped = [](const std::string& shape) {
    return "{" + tensor_json("a", "F32", shape, "[0,4]") + "}";
  };
  expect_refused(shaped("[-1]"), 4, "negative number -1");
  expect_refused(shaped("[1.0]"), 4, "the number 1.0");
  expect_refused(shaped("[18446744073709551616]"), 4, "the number 18446744073709551616");
  expect_refused(shaped("[9223372036854775808]"), 4, "beyond 64 bits");
  expect_refused(shaped("[4294967296,4294967296]"), 4, "larger than 64 bits");
  expect_refused(shaped("[4611686018427387905]"), 4, "larger than 64 bits");
  expect_refused(shaped("[\"1\"]"), 4, "holds a string");
  expect_refused(shaped("[2]"), 4, "should be 8 bytes long but has 4");
  expect_refused(shaped("[0]"), 4, "should be 0 bytes long but has 4");
}

TEST(TensorHeader, PlacesAreChecked) {
  const auto two = [](const std::string& first, const std::string& second) {
    return "{" + tensor_json("a", "I8", "[4]", first) + "," +
           tensor_json("b", "I8", "[4]", second) + "}";
  };
  EXPECT_TRUE(parse(two("[4,8]", "[0,4]"), 8));
  expect_refused(two("[0,4]", "[3,7]"), 8, "'b' overlaps");
  expect_refused(two("[0,4]", "[0,4]"), 4, "'b' overlaps");
  expect_refused(two("[0,4]", "[5,9]"), 9, "hole of 1 bytes before tensor 'b'");
  expect_refused(two("[1,5]", "[5,9]"), 9, "hole of 1 bytes before tensor 'a'");
  expect_refused(two("[0,4]", "[4,8]"), 7, "ends at byte 8 of a data section of 7");
  expect_refused(two("[0,4]", "[4,8]"), 9, "cover 8 bytes of a data section of 9");
  expect_refused(two("[4,0]", "[4,8]"), 8, "'a' ends before it begins");
  expect_refused(two("[0]", "[4,8]"), 8, "not two numbers");
  expect_refused(two("[0,4,4]", "[4,8]"), 8, "more than two numbers");
  expect_refused(two("[0,18446744073709551615]", "[4,8]"), 8, "'a' ");
  expect_refused(two("[18446744073709551615,4]", "[0,4]"), 8, "ends before it begins");
}

TEST(TensorHeader, SizesBeyondThirtyTwoBitsAreExact) {
  for (const std::uint64_t size : {(1ull << 31) - 1, 1ull << 31, (1ull << 32) + 1, 1ull << 40}) {
    const std::string number = std::to_string(size);
    const auto manifest =
        parse("{" + tensor_json("a", "U8", "[" + number + "]", "[0," + number + "]") + "}", size);
    ASSERT_TRUE(manifest) << manifest.error().message;
    EXPECT_EQ(manifest->tensors[0].elements(), size);
  }
}

// Damages a valid header in the ways transport, disks and attackers do.
void mutate(std::string& text, Prng& random) {
  static const std::string tokens[] = {
      "{",   "}",    "[",          "]",  "\"",   ",",  ":",     "-1",          "0",
      "1e9", "null", "\"shape\":", "\\", "\xff", "4}", "[0,4]", "\"dtype\":1", "99999999999999"};
  const auto position = [&] { return random.below(text.size() + 1); };
  const std::uint64_t times = 1 + random.below(4);
  for (std::uint64_t i = 0; i < times; ++i) {
    switch (random.below(6)) {
      case 0:
        if (!text.empty()) text[random.below(text.size())] ^= static_cast<char>(random.next());
        break;
      case 1:
        text.erase(position(), random.below(9));
        break;
      case 2:
        text.insert(position(), tokens[random.below(std::size(tokens))]);
        break;
      case 3:
        text.resize(position());
        break;
      case 4: {
        const std::size_t from = position();
        text.insert(position(), text.substr(from, random.below(40)));
        break;
      }
      default:
        if (text.size() > 8) text[random.below(8)] = static_cast<char>(random.next());
        break;
    }
  }
}

// What holds for every manifest that was let through, however the header came about.
void expect_sound(const Manifest& manifest, std::uint64_t file_size) {
  ASSERT_EQ(manifest.file_bytes(), file_size);
  std::uint64_t covered = 0;
  for (const TensorInfo& tensor : manifest.tensors) {
    ASSERT_EQ(tensor.begin, covered);
    ASSERT_EQ(bytes_of(tensor.dtype, tensor.shape), tensor.bytes());
    covered = tensor.end;
  }
  ASSERT_EQ(covered, manifest.data_bytes);
  ASSERT_EQ(manifest.index().size(), manifest.tensors.size());
}

TEST(TensorHeader, AHundredThousandDamagedHeadersDoNoHarm) {
  const std::string valid =
      with_length("{" + tensor_json("conv.weight", "F32", "[2,2]", "[0,16]") + "," +
                  tensor_json("bn.num_batches_tracked", "I64", "[]", "[16,24]") + "," +
                  tensor_json("empty", "F16", "[0,3]", "[24,24]") +
                  R"(,"__metadata__":{"fedqueue.buffers":"bn.running_mean","format":"pt"}})");
  Prng random(20240517);
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::string text = valid;
    mutate(text, random);
    if (round % 2 == 0 && text.size() > 8) text = with_length(text.substr(8));
    const std::uint64_t file_size = text.size() + 24;
    const auto manifest = parse_header(bytes_of_text(text), file_size);
    if (manifest) {
      ++accepted;
      expect_sound(*manifest, file_size);
    } else {
      ++refused;
      ASSERT_EQ(manifest.error().code, Code::model_format);
      ASSERT_FALSE(manifest.error().message.empty());
      ASSERT_LT(manifest.error().message.size(), 1000u);
    }
  }
  EXPECT_GT(accepted, 100) << "the damage should leave some headers readable";
  EXPECT_GT(refused, 50'000);
}

}  // namespace
}  // namespace fedqueue::tensor
