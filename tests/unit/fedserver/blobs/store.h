// A blob store in a folder of its own, and bytes to put into it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/prng.h"
#include "fedserver/blobs/blobs.h"
#include "fedserver/blobs/upload.h"

namespace fedqueue {

inline std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  Prng prng(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(prng.next() & 0xff);
  return bytes;
}

inline std::vector<std::byte> content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  return {bytes.begin(), bytes.end()};
}

class StoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "blobs-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    reopen({});
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(folder_);
  }
  // As after a restart of the server.
  void reopen(BlobLimits limits) {
    limits.free_bytes_min = 0;
    store_.reset();
    auto opened = BlobStore::open(folder_, limits);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  std::uint64_t durable() {
    auto bytes = store_->durable_bytes(id_);
    EXPECT_TRUE(bytes);
    return bytes && *bytes ? **bytes : 0;
  }

  std::filesystem::path folder_;
  std::unique_ptr<BlobStore> store_;
  const UpdateId id_{"site-a.10001.0.1"};
  const std::vector<std::byte> bytes_ = random_bytes(300'000, 7);
  const std::string digest_ = xxh128_hex(bytes_);
};

}  // namespace fedqueue
