// Streaming files: what was written is read back, the checksum is the file's, and a file that is
// not finished is not there.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "core/base/file.h"
#include "core/tensor/file.h"

namespace fedqueue::tensor {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TensorFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fedqueue-tensor-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Manifest manifest() {
    std::vector<TensorInfo> tensors(2);
    tensors[0].name = "weight";
    tensors[0].shape = {250};
    tensors[1].name = "flags";
    tensors[1].dtype = DType::u8;
    tensors[1].shape = {7};
    return *lay_out(std::move(tensors), {{"format", "pt"}});
  }
  static std::vector<std::byte> content() {
    std::vector<std::byte> bytes(1007);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7);
    return bytes;
  }

  fs::path folder_;
};

TEST_F(TensorFile, WhatIsWrittenInPiecesIsReadInPieces) {
  const std::vector<std::byte> data = content();
  const fs::path path = folder_ / "model.safetensors";
  {
    auto writer = Writer::create(folder_ / "temporary", manifest());
    ASSERT_TRUE(writer) << writer.error().message;
    ASSERT_TRUE(writer->write(std::span(data).subspan(0, 3)));
    ASSERT_TRUE(writer->write(std::span(data).subspan(3, 900)));
    ASSERT_TRUE(writer->write(std::span(data).subspan(903)));
    const auto written = writer->finish();
    ASSERT_TRUE(written) << written.error().message;
    ASSERT_TRUE(writer->commit(path));
    const std::string whole = *read_file(path);
    EXPECT_EQ(written->bytes, whole.size());
    EXPECT_EQ(written->sha256, sha256_hex(whole));
  }
  EXPECT_FALSE(fs::exists(folder_ / "temporary"));

  const auto reader = Reader::open(path);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->manifest().metadata.at("format"), "pt");
  const TensorInfo& flags = *reader->manifest().find("flags");
  std::vector<std::byte> bytes(flags.bytes());
  ASSERT_TRUE(reader->read_tensor(flags, bytes));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), data.begin() + 1000));
  const auto mapped = reader->map();
  ASSERT_TRUE(mapped);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), mapped->bytes().begin(), mapped->bytes().end()));
  EXPECT_EQ(mapped->bytes(flags).front(), data[1000]);
}

TEST_F(TensorFile, PlacesInAnyOrderGiveTheSameFile) {
  const std::vector<std::byte> data = content();
  const std::span<const std::byte> view(data);
  auto writer = Writer::create(folder_ / "placed", manifest());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->place(500, view.subspan(500)));
  ASSERT_TRUE(writer->place(0, view.subspan(0, 500)));
  writer->digest(view);
  const auto written = writer->finish();
  ASSERT_TRUE(written);
  EXPECT_EQ(written->sha256, sha256_hex(*read_file(folder_ / "placed")));
}

TEST_F(TensorFile, AnUnfinishedFileIsNotLeftBehind) {
  const std::vector<std::byte> data = content();
  const fs::path path = folder_ / "model.safetensors";
  {
    auto writer = Writer::create(path, manifest());
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->write(std::span(data).subspan(0, 100)));
    EXPECT_THAT(writer->finish().error().message, HasSubstr("100 bytes of data of 1007"));
    std::vector<std::byte> too_much(1000);
    EXPECT_FALSE(writer->write(too_much));
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(TensorFile, BrokenFilesAreNamed) {
  const fs::path path = folder_ / "broken.safetensors";
  EXPECT_EQ(Reader::open(path).error().code, Code::storage);
  std::ofstream(path) << "short";
  auto reader = Reader::open(path);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, Code::model_format);
  EXPECT_THAT(reader.error().message, HasSubstr(path.string()));
  std::ofstream(path) << "\x02\0\0\0\0\0\0\0[]";
  EXPECT_EQ(Reader::open(path).error().code, Code::model_format);
}

TEST_F(TensorFile, AFileCutShortAfterOpeningIsAnError) {
  const fs::path path = folder_ / "model.safetensors";
  const std::vector<std::byte> data = content();
  {
    auto writer = Writer::create(path, manifest());
    ASSERT_TRUE(writer && writer->write(data) && writer->finish());
  }
  const auto reader = Reader::open(path);
  ASSERT_TRUE(reader);
  fs::resize_file(path, reader->manifest().header_bytes + 10);
  std::vector<std::byte> bytes(20);
  const Status read = reader->read(0, bytes);
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("earlier than its header says"));
}

// A single tensor beyond 4 GiB; the file is sparse, so that it costs no disk.
TEST_F(TensorFile, SingleTensorsMayBeLargerThanFourGibibytes) {
  const std::uint64_t size = 5ull << 30;
  std::vector<TensorInfo> tensors(1);
  tensors[0].name = "embedding";
  tensors[0].dtype = DType::u8;
  tensors[0].shape = {static_cast<std::int64_t>(size)};
  const fs::path path = folder_ / "large.safetensors";
  const std::vector<std::byte> mark(3, std::byte{42});
  const Manifest large = *lay_out(std::move(tensors));
  ASSERT_TRUE(write_file_atomic(path, build_header(large)));
  fs::resize_file(path, large.file_bytes());
  {
    const auto fd = open_file(path, O_WRONLY);
    ASSERT_TRUE(fd);
    const auto offset = static_cast<off_t>(large.header_bytes + size - mark.size());
    ASSERT_EQ(::pwrite(fd->get(), mark.data(), mark.size(), offset), 3);
  }
  const auto reader = Reader::open(path);
  ASSERT_TRUE(reader) << reader.error().message;
  std::vector<std::byte> tail(4);
  ASSERT_TRUE(reader->read(size - 4, tail));
  EXPECT_EQ(tail[0], std::byte{0});
  EXPECT_EQ(tail[3], std::byte{42});
}

}  // namespace
}  // namespace fedqueue::tensor
