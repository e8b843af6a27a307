#include "fedserver/http/model_index.h"

#include <gtest/gtest.h>

namespace fedqueue::http {
namespace {

ModelRecord model(Version version) {
  return {version, "round-" + std::to_string(version), "digest" + std::to_string(version), 100};
}

void replay(ModelIndex& index, const Fact& fact) { index.on_replayed(JournalRow{}, fact); }

TEST(ModelIndex, FollowsWhatIsPublished) {
  ModelIndex index;
  EXPECT_FALSE(index.latest());
  replay(index, RunOpened{"mnist", model(0)});
  replay(index, Published{model(1), 0});
  ASSERT_TRUE(index.latest());
  EXPECT_EQ(index.latest()->version, 1);
  ASSERT_TRUE(index.find(0));
  EXPECT_EQ(index.find(0)->file, "round-0");
  EXPECT_FALSE(index.find(2));
}

TEST(ModelIndex, ForgetsWhatIsPruned) {
  ModelIndex index;
  for (Version version = 0; version < 5; ++version) replay(index, Published{model(version), 0});
  replay(index, ModelsPruned{3});
  EXPECT_FALSE(index.find(2));
  EXPECT_TRUE(index.find(3));
  EXPECT_TRUE(index.find(0));  // the initial model stays
  EXPECT_EQ(index.oldest(), 3);
}

TEST(ModelIndex, KnowsTheNewestDecidedUpdates) {
  ModelIndex index;
  const auto decide = [&index](int job) {
    UpdateDecided decided;
    decided.answer.id = UpdateId("site-a." + std::to_string(job) + ".0.1");
    decided.bytes = static_cast<std::uint64_t>(job);
    replay(index, decided);
  };
  for (int job = 1; job <= static_cast<int>(ModelIndex::decided_max) + 1; ++job) decide(job);
  EXPECT_EQ(index.decided_bytes(UpdateId("site-a.2.0.1")), 2u);
  EXPECT_EQ(index.decided_bytes(UpdateId("site-a.1.0.1")), std::nullopt);
}

}  // namespace
}  // namespace fedqueue::http
