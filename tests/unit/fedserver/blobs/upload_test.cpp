#include "fedserver/blobs/upload.h"

#include <gtest/gtest.h>

#include <span>

#include "tests/unit/fedserver/blobs/store.h"

namespace fedqueue {
namespace {

using UploadTest = StoreTest;

std::span<const std::byte> part(const std::vector<std::byte>& bytes, std::size_t from,
                                std::size_t count) {
  return std::span(bytes).subspan(from, count);
}

TEST_F(UploadTest, AWholeUpdateIsFoundUnderItsName) {
  auto upload = store_->begin_upload(id_, bytes_.size(), 0, digest_);
  ASSERT_TRUE(upload) << upload.error().message;
  ASSERT_TRUE((*upload)->append(part(bytes_, 0, 100'000)));
  ASSERT_TRUE((*upload)->append(part(bytes_, 100'000, 200'000)));
  auto path = (*upload)->finish();
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(*path, store_->update_path(id_));
  EXPECT_EQ(content(*path), bytes_);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "uploads" / "site-a.10001.0.1.part"));
  EXPECT_FALSE(store_->durable_bytes(id_)->has_value());
}

TEST_F(UploadTest, AnUnknownUpdateHasNoBytes) {
  auto bytes = store_->durable_bytes(id_);
  ASSERT_TRUE(bytes);
  EXPECT_FALSE(bytes->has_value());
}

TEST_F(UploadTest, ACutUploadGoesOnWhereItWas) {
  {
    auto upload = store_->begin_upload(id_, bytes_.size(), 0, digest_);
    ASSERT_TRUE(upload);
    ASSERT_TRUE((*upload)->append(part(bytes_, 0, 123'456)));
  }
  EXPECT_EQ(durable(), 123'456u);
  auto upload = store_->begin_upload(id_, bytes_.size(), 123'456, digest_);
  ASSERT_TRUE(upload) << upload.error().message;
  EXPECT_EQ((*upload)->offset(), 123'456u);
  ASSERT_TRUE((*upload)->append(part(bytes_, 123'456, bytes_.size() - 123'456)));
  auto path = (*upload)->finish();
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(content(*path), bytes_);
}

TEST_F(UploadTest, TheChecksumCoversBytesFromBeforeARestartOfTheServer) {
  {
    auto upload = store_->begin_upload(id_, bytes_.size(), 0, digest_);
    ASSERT_TRUE((*upload)->append(part(bytes_, 0, 200'000)));
  }
  reopen({});
  EXPECT_EQ(durable(), 200'000u);
  auto upload = store_->begin_upload(id_, bytes_.size(), 200'000, digest_);
  ASSERT_TRUE(upload) << upload.error().message;
  ASSERT_TRUE((*upload)->append(part(bytes_, 200'000, 100'000)));
  auto path = (*upload)->finish();
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(content(*path), bytes_);
}

TEST_F(UploadTest, AByteSpoiledBetweenTwoRequestsIsFound) {
  {
    auto upload = store_->begin_upload(id_, bytes_.size(), 0, digest_);
    ASSERT_TRUE((*upload)->append(part(bytes_, 0, 200'000)));
  }
  {
    std::fstream file(folder_ / "uploads" / "site-a.10001.0.1.part",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1000);
    file.put(static_cast<char>(static_cast<unsigned char>(bytes_[1000]) ^ 1));
  }
  reopen({});
  auto upload = store_->begin_upload(id_, bytes_.size(), 200'000, digest_);
  ASSERT_TRUE((*upload)->append(part(bytes_, 200'000, 100'000)));
  auto path = (*upload)->finish();
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, Code::try_again);
}

TEST_F(UploadTest, AWrongChecksumStartsOverAndSaysBothChecksums) {
  const std::string other(32, '0');
  auto upload = store_->begin_upload(id_, bytes_.size(), 0, other);
  ASSERT_TRUE((*upload)->append(bytes_));
  auto path = (*upload)->finish();
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, Code::try_again);
  EXPECT_NE(path.error().message.find(digest_), std::string::npos);
  EXPECT_NE(path.error().message.find(other), std::string::npos);
  EXPECT_FALSE(path.error().cure.empty());
  EXPECT_EQ(durable(), 0u);
  EXPECT_FALSE(std::filesystem::exists(store_->update_path(id_)));
}

TEST_F(UploadTest, BytesThatAreAlreadyHereAreSkipped) {
  {
    auto upload = store_->begin_upload(id_, bytes_.size(), 0, digest_);
    ASSERT_TRUE((*upload)->append(part(bytes_, 0, 200'000)));
  }
  auto upload = store_->begin_upload(id_, bytes_.size(), 50'000, digest_);
  ASSERT_TRUE(upload) << upload.error().message;
  EXPECT_EQ((*upload)->offset(), 50'000u);
  ASSERT_TRUE((*upload)->append(part(bytes_, 50'000, 100'000)));
  ASSERT_TRUE((*upload)->append(part(bytes_, 150'000, 150'000)));
  auto path = (*upload)->finish();
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(content(*path), bytes_);
}

TEST_F(UploadTest, AStartBeyondWhatIsHereIsAConflict) {
  auto upload = store_->begin_upload(id_, bytes_.size(), 10, digest_);
  ASSERT_FALSE(upload);
  EXPECT_EQ(upload.error().code, Code::conflict);
}

TEST_F(UploadTest, StartingAtZeroThrowsTheOldBytesAway) {
  {
    auto upload = store_->begin_upload(id_, bytes_.size(), 0, digest_);
    ASSERT_TRUE((*upload)->append(part(bytes_, 0, 200'000)));
  }
  const auto fresh = random_bytes(1000, 8);
  auto upload = store_->begin_upload(id_, fresh.size(), 0, xxh128_hex(fresh));
  ASSERT_TRUE(upload);
  ASSERT_TRUE((*upload)->append(fresh));
  auto path = (*upload)->finish();
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(content(*path), fresh);
}

TEST_F(UploadTest, BytesOfAnotherFileAreNotGoneOnWith) {
  {
    auto upload = store_->begin_upload(id_, bytes_.size(), 0, digest_);
    ASSERT_TRUE((*upload)->append(part(bytes_, 0, 200'000)));
  }
  auto upload = store_->begin_upload(id_, bytes_.size(), 200'000, std::string(32, 'a'));
  ASSERT_FALSE(upload);
  EXPECT_EQ(upload.error().code, Code::conflict);
  EXPECT_EQ(durable(), 0u);
}

TEST_F(UploadTest, AnUpdateHasOneWriter) {
  auto first = store_->begin_upload(id_, bytes_.size(), 0, digest_);
  ASSERT_TRUE(first);
  auto second = store_->begin_upload(id_, bytes_.size(), 0, digest_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::conflict);
  first->reset();
  EXPECT_TRUE(store_->begin_upload(id_, bytes_.size(), 0, digest_));
}

TEST_F(UploadTest, DurableBytesGrowWhileTheUploadRuns) {
  BlobLimits limits;
  limits.sync_every_bytes = 100'000;
  reopen(limits);
  auto upload = store_->begin_upload(id_, bytes_.size(), 0, digest_);
  ASSERT_TRUE((*upload)->append(part(bytes_, 0, 150'000)));
  while (durable() == 0) std::this_thread::yield();
  EXPECT_EQ(durable(), 150'000u);
}

TEST_F(UploadTest, ACompletePartCanBeFinishedWithoutMoreBytes) {
  {
    auto upload = store_->begin_upload(id_, bytes_.size(), 0, digest_);
    ASSERT_TRUE((*upload)->append(bytes_));
    ASSERT_TRUE((*upload)->finish());
  }
  ASSERT_TRUE(store_->reopen_update(id_));
  EXPECT_EQ(durable(), bytes_.size());
  auto upload = store_->begin_upload(id_, bytes_.size(), bytes_.size(), digest_);
  ASSERT_TRUE(upload) << upload.error().message;
  EXPECT_TRUE((*upload)->finish());
}

TEST_F(UploadTest, AQuotaCountsWhatIsPromisedToOthers) {
  BlobLimits limits;
  limits.quota_bytes = 500'000;
  reopen(limits);
  auto first = store_->begin_upload(id_, bytes_.size(), 0, digest_);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE((*first)->append(part(bytes_, 0, 100'000)));
  const UpdateId other("site-b.7.0.1");
  auto second = store_->begin_upload(other, bytes_.size(), 0, digest_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::storage_full);
  EXPECT_FALSE(second.error().cure.empty());
  EXPECT_TRUE(store_->begin_upload(other, 200'000, 0, digest_));
}

TEST_F(UploadTest, SizesBeyondTheLimitAndBeyond32BitsAreRefusedBeforeAnyByte) {
  BlobLimits limits;
  limits.update_bytes_max = (1ull << 32);
  reopen(limits);
  auto upload = store_->begin_upload(id_, (1ull << 32) + 1, 0, digest_);
  ASSERT_FALSE(upload);
  EXPECT_EQ(upload.error().code, Code::too_large);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "uploads" / "site-a.10001.0.1.part"));
}

TEST_F(UploadTest, ANameThatIsNoUpdateIsRefused) {
  EXPECT_FALSE(store_->begin_upload(UpdateId("../../etc/passwd"), 10, 0, digest_));
}

TEST_F(UploadTest, APartBeyondFourGibibytesGoesOnAtItsEnd) {
  // Sparse: the length is what matters.
  const std::uint64_t length = (5ull << 30);
  const auto path = folder_ / "uploads" / "site-a.10001.0.1.part";
  { std::ofstream file(path); }
  std::filesystem::resize_file(path, length);
  reopen({});
  EXPECT_EQ(durable(), length);
  auto upload = store_->begin_upload(id_, length + 10, length + 1, digest_);
  ASSERT_FALSE(upload);
  EXPECT_EQ(upload.error().code, Code::conflict);
}

}  // namespace
}  // namespace fedqueue
