// What is left on disk by a killed job can be found again.
#include "fedclient/session/snapshot.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/file.h"

namespace fedqueue {
namespace {

class SnapshotTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "snapshot-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  Snapshot left(const std::string& id) {
    Snapshot snapshot;
    snapshot.id = UpdateId(id);
    snapshot.update = snapshot_file(directory_, snapshot.id).value();
    snapshot.metadata.base = 3;
    snapshot.metadata.steps_run = 17;
    snapshot.token = "secret-token";
    EXPECT_TRUE(write_file_atomic(snapshot.update, "tensors"));
    return snapshot;
  }

  std::filesystem::path directory_;
};

TEST_F(SnapshotTest, IsFoundWithItsMetadataAndToken) {
  ASSERT_TRUE(write_snapshot_note(left("site-a.10001.0.2")));
  ASSERT_TRUE(write_snapshot_note(left("site-a.10001.0.1")));
  const std::vector<Snapshot> found = list_snapshots(directory_);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].id.str(), "site-a.10001.0.1");
  EXPECT_EQ(found[1].id.str(), "site-a.10001.0.2");
  EXPECT_EQ(found[0].metadata.steps_run, 17);
  EXPECT_EQ(found[0].token, "secret-token");
  EXPECT_EQ(read_file(found[0].update).value(), "tensors");
}

TEST_F(SnapshotTest, OnlyItsOwnerCanReadTheToken) {
  const Snapshot snapshot = left("site-a.10001.0.1");
  ASSERT_TRUE(write_snapshot_note(snapshot));
  struct stat status {};
  std::filesystem::path note = snapshot.update;
  ASSERT_EQ(::stat(note.replace_extension(".json").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(SnapshotTest, UnfinishedAndForeignFilesAreLeftOut) {
  left("site-a.10001.0.1");  // no note yet
  ASSERT_TRUE(write_file_atomic(directory_ / "snapshots" / "notes.json", "{}"));
  ASSERT_TRUE(write_file_atomic(directory_ / "snapshots" / "site-a.1.0.1.json", "not json"));
  EXPECT_TRUE(list_snapshots(directory_).empty());
  EXPECT_TRUE(list_snapshots(directory_ / "nothing-here").empty());
}

TEST_F(SnapshotTest, IsGoneAfterRemoval) {
  const Snapshot snapshot = left("site-a.10001.0.1");
  ASSERT_TRUE(write_snapshot_note(snapshot));
  remove_snapshot(snapshot);
  EXPECT_TRUE(list_snapshots(directory_).empty());
  EXPECT_FALSE(std::filesystem::exists(snapshot.update));
  remove_snapshot(snapshot);
}

TEST_F(SnapshotTest, WhatTheServerTookWaitsForTheControlVariatesWhoeverSentIt) {
  Snapshot snapshot = left("site-a.10001.0.1");
  snapshot.controls = directory_ / "controls-mnist";
  ASSERT_TRUE(write_snapshot_note(snapshot));
  const std::vector<Snapshot> found = list_snapshots(directory_);  // as the agent finds it
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].controls, snapshot.controls);
  settle_snapshot(found[0], Disposition::counted);
  EXPECT_TRUE(list_snapshots(directory_).empty());
  EXPECT_EQ(*read_file(snapshot.controls / "pending" / "site-a.10001.0.1.safetensors"), "tensors");

  const Snapshot plain = left("site-a.10001.0.2");
  ASSERT_TRUE(write_snapshot_note(plain));
  settle_snapshot(plain, Disposition::counted);
  EXPECT_FALSE(std::filesystem::exists(plain.update)) << "without control variates it just goes";
}

}  // namespace
}  // namespace fedqueue
