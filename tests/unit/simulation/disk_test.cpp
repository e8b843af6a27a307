#include "simulation/world/disk.h"

#include <gtest/gtest.h>

#include "core/base/digest.h"
#include "fedserver/blobs/upload.h"

namespace fedqueue::simulation {
namespace {

class DiskTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(disk_.make_directories("/d")); }
  std::unique_ptr<DiskFile> write(const std::string& path, std::size_t bytes) {
    Result<std::unique_ptr<DiskFile>> file = disk_.open(path, Disk::Mode::write);
    EXPECT_TRUE(file);
    EXPECT_EQ(*(*file)->write_at(0, Bytes(bytes, std::byte{7})), bytes);
    return std::move(*file);
  }
  std::size_t size(const std::string& path) {
    const SharedBytes content = disk_.content(path);
    return content ? content->size() : 0;
  }

  Clock clock_;
  Mortal owner_;
  SimulatedDisk disk_{clock_, owner_};
};

TEST_F(DiskTest, WhatIsSyncedWithItsNameSurvivesEveryPowerFailure) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Prng random(seed);
    const auto file = write("/d/kept", 10);
    ASSERT_TRUE(file->sync());
    ASSERT_TRUE(disk_.sync_directory("/d"));
    disk_.power_failure(random);
    ASSERT_EQ(size("/d/kept"), 10u);
    ASSERT_EQ((*disk_.content("/d/kept"))[9], std::byte{7});
  }
}

TEST_F(DiskTest, WhatIsNotSyncedIsSometimesLostAndSometimesTorn) {
  bool name_lost = false;
  bool bytes_lost = false;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Prng random(seed);
    ASSERT_TRUE(disk_.remove("/d/new"));
    ASSERT_TRUE(disk_.sync_directory("/d"));
    (void)write("/d/new", 10);
    disk_.power_failure(random);
    const SharedBytes left = disk_.content("/d/new");
    if (!left) {
      name_lost = true;
    } else if (left->size() < 10 || (*left)[9] != std::byte{7}) {
      bytes_lost = true;
    }
  }
  EXPECT_TRUE(name_lost);
  EXPECT_TRUE(bytes_lost);
}

TEST_F(DiskTest, AFullDiskTakesWhatFitsAndThenRefuses) {
  disk_.set_capacity(15);
  const auto first = write("/d/a", 10);
  Result<std::unique_ptr<DiskFile>> file = disk_.open("/d/b", Disk::Mode::write);
  ASSERT_TRUE(file);
  EXPECT_EQ(*(*file)->write_at(0, Bytes(10)), 5u);
  EXPECT_EQ((*file)->write_at(5, Bytes(5)).error().code, Code::storage_full);
  EXPECT_EQ(*disk_.free_bytes("/d"), 0u);
}

TEST_F(DiskTest, ADeadProcessChangesNothingAnyMore) {
  const auto file = write("/d/a", 10);
  owner_.end();
  EXPECT_FALSE(file->write_at(10, Bytes(5)));
  EXPECT_FALSE(disk_.remove("/d/a"));
  EXPECT_EQ(size("/d/a"), 10u);
}

// What HEAD tells of an upload must be there after any power failure, also while it is running.
TEST_F(DiskTest, BytesThatAnUploadReportsSurviveAPowerFailure) {
  const UpdateId id("site-a.1.0.1");
  const Bytes update(100, std::byte{5});
  BlobLimits limits;
  limits.free_bytes_min = 0;
  limits.sync_every_bytes = 10;
  auto store = BlobStore::open("/server", limits, disk_, Syncing::at_once);
  ASSERT_TRUE(store);
  auto upload = (*store)->begin_upload(id, update.size(), 0, xxh128_hex(update));
  ASSERT_TRUE(upload);
  ASSERT_TRUE((*upload)->append(std::span<const std::byte>(update).first(60)));
  const auto reported = (*store)->durable_bytes(id);
  ASSERT_TRUE(reported && *reported);
  EXPECT_EQ(**reported, 60u);
  const SharedBytes durable = disk_.durable_content("/server/uploads/site-a.1.0.1.part");
  ASSERT_TRUE(durable);
  EXPECT_GE(durable->size(), 60u);
}

}  // namespace
}  // namespace fedqueue::simulation
