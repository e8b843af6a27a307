#include "fedserver/blobs/blobs.h"

#include <gtest/gtest.h>

#include "tests/unit/fedserver/blobs/store.h"

namespace fedqueue {
namespace {

namespace fs = std::filesystem;
using BlobsTest = StoreTest;

void touch(const fs::path& path) { std::ofstream(path) << "bytes"; }

TEST_F(BlobsTest, ModelFilesSortByVersion) {
  EXPECT_EQ(BlobStore::model_file(7), "round-0007.safetensors");
  EXPECT_EQ(BlobStore::model_file(12345), "round-12345.safetensors");
}

TEST_F(BlobsTest, LatestFollowsThePublishedModel) {
  touch(store_->model_path("round-0000.safetensors"));
  touch(store_->model_path("round-0001.safetensors"));
  ASSERT_TRUE(store_->link_latest("round-0000.safetensors"));
  ASSERT_TRUE(store_->link_latest("round-0001.safetensors"));
  ASSERT_TRUE(store_->link_latest("round-0001.safetensors"));
  EXPECT_EQ(fs::read_symlink(folder_ / "latest"), "models/round-0001.safetensors");
  EXPECT_TRUE(fs::exists(folder_ / "latest"));
}

TEST_F(BlobsTest, RemovingTwiceIsNoFailure) {
  touch(store_->update_path(id_));
  touch(store_->model_path("round-0003.safetensors"));
  EXPECT_TRUE(store_->remove_update(id_));
  EXPECT_TRUE(store_->remove_update(id_));
  EXPECT_TRUE(store_->remove_model("round-0003.safetensors"));
  EXPECT_TRUE(store_->remove_model("round-0003.safetensors"));
  EXPECT_FALSE(fs::exists(store_->update_path(id_)));
}

TEST_F(BlobsTest, ASweepKeepsWhatIsReferredTo) {
  const UpdateId kept("site-a.1.0.1");
  const UpdateId lost("site-a.1.0.2");
  touch(store_->update_path(kept));
  touch(store_->update_path(lost));
  touch(store_->model_path("round-0001.safetensors"));
  touch(store_->model_path("round-0002.safetensors"));
  auto report = store_->sweep({kept}, {"round-0002.safetensors"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->updates_removed, 1u);
  EXPECT_EQ(report->models_removed, 1u);
  EXPECT_TRUE(fs::exists(store_->update_path(kept)));
  EXPECT_FALSE(fs::exists(store_->update_path(lost)));
  EXPECT_TRUE(fs::exists(store_->model_path("round-0002.safetensors")));
}

TEST_F(BlobsTest, ASweepKeepsYoungPartsAndRemovesForgottenOnes) {
  const fs::path young = folder_ / "uploads" / "site-a.1.0.1.part";
  const fs::path old = folder_ / "uploads" / "site-a.1.0.2.part";
  touch(young);
  touch(old);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(24 * 8));
  auto report = store_->sweep({}, {});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->parts_removed, 1u);
  EXPECT_TRUE(fs::exists(young));
  EXPECT_FALSE(fs::exists(old));
}

}  // namespace
}  // namespace fedqueue
