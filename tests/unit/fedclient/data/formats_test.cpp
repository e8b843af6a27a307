#include "fedclient/data/formats.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "files.h"

namespace fedqueue {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A CIFAR record whose pixels all have one value.
std::string record(std::vector<int> labels, int pixel) {
  std::string text;
  for (const int label : labels) text += static_cast<char>(label);
  return text + std::string(3 * 32 * 32, static_cast<char>(pixel));
}

class FormatsTest : public FilesTest {
 protected:
  // Expects a Code::data error that says this.
  void refuses(const std::string& words, Split split = Split::train) {
    const Result<Dataset> loaded = load_dataset(directory_, split);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, Code::data);
    EXPECT_THAT(loaded.error().message, HasSubstr(words));
    EXPECT_FALSE(loaded.error().cure.empty());
  }

  void put_tensors(const std::vector<tensor::TensorInfo>& infos,
                   const std::map<std::string, std::string>& data,
                   const std::string& name = "train.safetensors") {
    Result<tensor::Manifest> layout = tensor::lay_out(infos);
    ASSERT_TRUE(layout);
    Result<tensor::Writer> writer = tensor::Writer::create(directory_ / name, *layout);
    ASSERT_TRUE(writer);
    for (const auto& info : writer->manifest().tensors)
      ASSERT_TRUE(writer->write(bytes_of(data.at(info.name))));
    ASSERT_TRUE(writer->finish());
  }
};

TEST_F(FormatsTest, AnEmptyDirectorySaysWhatCouldBeThere) {
  refuses(
      "none of train-images-idx3-ubyte (IDX), data_batch_1.bin (CIFAR-10), train.bin "
      "(CIFAR-100), train.safetensors, train.tokens");
  refuses("no held-out data", Split::held_out);
  directory_ /= "nowhere";
  refuses("the directory does not exist");
}

TEST_F(FormatsTest, TwoDatasetsInOneDirectoryAreRefused) {
  put("train.bin", record({0, 1}, 2));
  put("train.tokens", "abcd");
  refuses("two datasets are there, train.bin (CIFAR-100) and train.tokens");
}

TEST_F(FormatsTest, ReadsCifar10BatchAfterBatch) {
  put("data_batch_1.bin", record({3}, 7) + record({9}, 8));
  put("data_batch_2.bin", record({0}, 9));
  put("test_batch.bin", record({5}, 1));
  const Result<Dataset> train = load_dataset(directory_, Split::train);
  ASSERT_TRUE(train);
  EXPECT_EQ(train->input.text(), "3x32x32");
  EXPECT_EQ(train->classes, 10);
  EXPECT_THAT(train->labels, ElementsAre(3, 9, 0));
  EXPECT_EQ(train->sample(2)[3071], std::byte{9});
  const Result<Dataset> held_out = load_dataset(directory_, Split::held_out);
  ASSERT_TRUE(held_out);
  EXPECT_THAT(held_out->labels, ElementsAre(5));
}

TEST_F(FormatsTest, ReadsTheFineLabelsOfCifar100) {
  put("train.bin", record({19, 99}, 7) + record({0, 42}, 8));
  const Result<Dataset> train = load_dataset(directory_, Split::train);
  ASSERT_TRUE(train);
  EXPECT_EQ(train->classes, 100);
  EXPECT_THAT(train->labels, ElementsAre(99, 42));
  EXPECT_EQ(train->sample(1)[0], std::byte{8});
}

TEST_F(FormatsTest, BrokenCifarFilesAreNamed) {
  put("data_batch_1.bin", record({3}, 7) + "x");
  refuses("data_batch_1.bin: the file is truncated");
  put("data_batch_1.bin", record({3}, 7) + record({10}, 7));
  refuses("sample 1 has label 10");
  put("data_batch_1.bin", "");
  refuses("the file is empty");
  put("data_batch_1.bin", record({3}, 7));
  put("data_batch_3.bin", record({3}, 7));
  refuses("data_batch_2.bin: it is missing");
}

TEST_F(FormatsTest, CifarIsWrittenAsItIsRead) {
  for (const auto& [name, content] :
       {std::pair("data_batch_1.bin", record({3}, 7) + record({9}, 8) + record({1}, 2)),
        std::pair("train.bin", record({0, 42}, 7) + record({0, 9}, 8) + record({0, 1}, 2))}) {
    std::filesystem::remove(directory_ / "data_batch_1.bin");
    put(name, content);
    const Result<DataFormat> format = find_format(directory_, Split::train);
    ASSERT_TRUE(format);
    const Result<Dataset> whole = load_dataset(directory_, Split::train);
    ASSERT_TRUE(whole);
    ASSERT_TRUE(write_dataset(directory_ / "copy", Split::train, *whole, *format));
    EXPECT_EQ(*read_file(directory_ / "copy" / name), content);
    const std::vector<std::int64_t> two = {2, 0};
    ASSERT_TRUE(write_dataset(directory_ / "part", Split::train, *whole, *format, two));
    const std::size_t size = content.size() / 3;
    EXPECT_EQ(*read_file(directory_ / "part" / name),
              content.substr(2 * size) + content.substr(0, size));
    std::filesystem::remove_all(directory_ / "copy");
    std::filesystem::remove_all(directory_ / "part");
  }
}

TEST_F(FormatsTest, MapsSafetensorsOfFloats) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> targets = {4, 0};
  put_tensors({{"inputs", tensor::DType::f32, {2, 3}}, {"targets", tensor::DType::i32, {2}}},
              {{"inputs", raw(values)}, {"targets", raw(targets)}});
  const Result<Dataset> loaded = load_dataset(directory_, Split::train);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->input.text(), "3");
  EXPECT_EQ(loaded->dtype, tensor::DType::f32);
  EXPECT_EQ(loaded->classes, 5);
  EXPECT_THAT(loaded->labels, ElementsAre(4, 0));
  EXPECT_EQ(std::memcmp(loaded->sample(1), values.data() + 3, 12), 0);
}

TEST_F(FormatsTest, SafetensorsAreWrittenAsTheyAreRead) {
  const std::vector<std::uint8_t> values = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint8_t> targets = {2, 0, 1};
  put_tensors({{"inputs", tensor::DType::u8, {3, 1, 2}}, {"targets", tensor::DType::u8, {3}}},
              {{"inputs", raw(values)}, {"targets", raw(targets)}}, "held_out.safetensors");
  const Result<Dataset> loaded = load_dataset(directory_, Split::held_out);
  ASSERT_TRUE(loaded);
  const std::vector<std::int64_t> two = {2, 0};
  ASSERT_TRUE(
      write_dataset(directory_ / "part", Split::held_out, *loaded, DataFormat::safetensors, two));
  const Result<Dataset> part = load_dataset(directory_ / "part", Split::held_out);
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->input.text(), "1x2");
  EXPECT_THAT(part->labels, ElementsAre(1, 2));
  EXPECT_THAT(part->values, ElementsAre(std::byte{5}, std::byte{6}, std::byte{1}, std::byte{2}));
}

TEST_F(FormatsTest, SafetensorsOfAnotherStructureAreRefused) {
  const auto u8 = tensor::DType::u8;
  put_tensors({{"images", u8, {1, 2}}}, {{"images", "ab"}});
  refuses("no tensor 'inputs'");
  put_tensors({{"inputs", u8, {1, 2}}}, {{"inputs", "ab"}});
  refuses("no tensor 'targets'");
  put_tensors({{"inputs", u8, {2}}, {"targets", u8, {2}}}, {{"inputs", "ab"}, {"targets", "ab"}});
  refuses("inputs are u8 [2]");
  put_tensors({{"inputs", u8, {2, 1}}, {"targets", u8, {2, 1}}},
              {{"inputs", "ab"}, {"targets", "ab"}});
  refuses("targets are u8 [2, 1]");
  put_tensors({{"inputs", u8, {2, 1}}, {"targets", u8, {1}}}, {{"inputs", "ab"}, {"targets", "a"}});
  refuses("2 inputs but 1 targets");
  put_tensors({{"inputs", u8, {0, 3}}, {"targets", u8, {0}}}, {{"inputs", ""}, {"targets", ""}});
  refuses("no samples");
  const std::vector<std::int64_t> below = {0, -1};
  put_tensors({{"inputs", u8, {2, 1}}, {"targets", tensor::DType::i64, {2}}},
              {{"inputs", "ab"}, {"targets", raw(below)}});
  refuses("sample 1 has the target -1");
  const std::string whole = *read_file(directory_ / "train.safetensors");
  put("train.safetensors", whole.substr(0, whole.size() - 1));
  refuses("train.safetensors");
}

TEST_F(FormatsTest, MapsTokensAndCutsThemForAModel) {
  put("train.tokens", raw(std::vector<std::int32_t>{7, 70000, 8, 9, 10, 11}));
  put("tokens.json", R"({"dtype": "i32", "vocabulary": 70001})");
  Result<Dataset> loaded = load_dataset(directory_, Split::train);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->tokens(), 6);
  EXPECT_EQ(loaded->classes, 70001);
  ASSERT_TRUE(loaded->cut_for({{2}, true}));
  EXPECT_EQ(loaded->samples(), 2);
  EXPECT_THAT(gather(*loaded, 0, 2).targets, ElementsAre(70000, 8, 9, 10));
  const Status cut = loaded->cut_for({{6}, true});
  ASSERT_FALSE(cut);
  EXPECT_THAT(cut.error().message, HasSubstr("6 tokens are not one sample of tokens:6"));
}

TEST_F(FormatsTest, TokensAreWrittenPieceByPiece) {
  const std::vector<std::uint16_t> tokens = {7, 3, 8, 9, 10, 11};
  put("train.tokens", raw(tokens));
  put("tokens.json", R"({"dtype": "u16", "vocabulary": 12})");
  const Result<Dataset> loaded = load_dataset(directory_, Split::train);
  ASSERT_TRUE(loaded);
  ASSERT_TRUE(
      write_dataset(directory_ / "part", Split::train, loaded->stretch(1, 4), DataFormat::tokens));
  const Result<Dataset> part = load_dataset(directory_ / "part", Split::train);
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->classes, 12);
  EXPECT_THAT(part->values, ElementsAreArray(std::as_bytes(std::span(tokens).subspan(1, 3))));
}

TEST_F(FormatsTest, BrokenTokensAreNamed) {
  put("train.tokens", "abc");
  refuses("tokens.json");
  for (const char* bad : {"", "[]", R"({"dtype": "u16"})", R"({"dtype": 3, "vocabulary": 9})",
                          R"({"dtype": "u16", "vocabulary": "9"})"}) {
    put("tokens.json", bad);
    refuses("dtype or vocabulary is missing");
  }
  put("tokens.json", R"({"dtype": "u8", "vocabulary": 9})");
  refuses("dtype is 'u8'");
  put("tokens.json", R"({"dtype": "u16", "vocabulary": 65537})");
  refuses("vocabulary is 65537");
  put("tokens.json", R"({"dtype": "u16", "vocabulary": 256})");
  refuses("the file is truncated");
  put("train.tokens", "ab");
  refuses("no samples");
}

TEST(ReadBatch, NamesTheSampleWithAValueThatIsNotFinite) {
  std::vector<float> values = {1, 2, 3, 4, 5, -std::numeric_limits<float>::infinity()};
  Dataset dataset;
  dataset.input = {{2}};
  dataset.dtype = tensor::DType::f32;
  dataset.values = std::as_bytes(std::span(values));
  dataset.labels = {0, 0, 0};
  dataset.classes = 1;
  const std::vector<std::int64_t> good = {1, 0};
  EXPECT_TRUE(read_batch(dataset, good));
  const std::vector<std::int64_t> bad = {1, 2, 0};
  const Result<Batch> status = read_batch(dataset, bad);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::data);
  EXPECT_THAT(status.error().message, HasSubstr("sample 2 has a value that is not finite"));
  values[3] = std::nanf("");
  EXPECT_THAT(read_batch(dataset, bad).error().message, HasSubstr("sample 1"));
}

TEST(ReadBatch, NamesTheSampleWithATokenOutsideTheVocabulary) {
  std::vector<std::uint16_t> tokens = {5, 6, 7, 8, 9};
  Dataset dataset;
  dataset.input = {{2}, true};
  dataset.dtype = tensor::DType::u16;
  dataset.values = std::as_bytes(std::span(tokens));
  dataset.classes = 10;
  const std::vector<std::int64_t> both = {0, 1};
  EXPECT_TRUE(read_batch(dataset, both));
  for (const auto& [position, sample] : {std::pair(0, 0), std::pair(1, 0), std::pair(4, 1)}) {
    tokens[static_cast<std::size_t>(position)] = 10;
    EXPECT_THAT(read_batch(dataset, both).error().message,
                HasSubstr("sample " + std::to_string(sample) +
                          " has a token outside the vocabulary of 10"));
    tokens = {5, 6, 7, 8, 9};
  }
}

}  // namespace
}  // namespace fedqueue
