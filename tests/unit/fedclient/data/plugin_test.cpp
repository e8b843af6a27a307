#include "fedclient/data/plugin.h"

#include <gmock/gmock.h>

#include <cstring>
#include <sstream>

#include "fedclient/data/commands.h"
#include "fedclient/data/loader.h"
#include "files.h"

namespace fedqueue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PluginTest : public FilesTest {
 protected:
  Result<Dataset> load(Split split = Split::train, const char* plugin = EXAMPLE_PLUGIN) {
    return load_with_plugin(plugin, directory_, split);
  }
  void refuses(Code code, const std::string& words, const char* plugin = EXAMPLE_PLUGIN) {
    const Result<Dataset> loaded = load(Split::train, plugin);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, code);
    EXPECT_THAT(loaded.error().message, HasSubstr(words));
  }
};

std::vector<float> floats(const Batch& batch) {
  std::vector<float> values(batch.values.size() / sizeof(float));
  std::memcpy(values.data(), batch.values.data(), batch.values.size());
  return values;
}

TEST_F(PluginTest, ItsSamplesAreReadAsTheyAreAskedFor) {
  put("train.count", "10 3");
  put("held_out.count", "4 2");
  const Result<Dataset> train = load();
  ASSERT_TRUE(train) << train.error().message;
  EXPECT_EQ(train->text(), "3 classes of 2");
  EXPECT_THAT(train->histogram(), ElementsAre(4, 3, 3));
  const std::vector<std::int64_t> some = {7, 2};
  const Result<Batch> batch = read_batch(*train, some);
  ASSERT_TRUE(batch);
  EXPECT_THAT(floats(*batch), ElementsAre(7, 1, 2, 2));
  EXPECT_THAT(batch->targets, ElementsAre(1, 2));
  EXPECT_EQ(load(Split::held_out)->samples(), 4);
}

TEST_F(PluginTest, SeveralThreadsReadFromItInTheSamplersOrder) {
  put("train.count", "100 5");
  const Result<Dataset> train = load();
  ASSERT_TRUE(train);
  LoaderOptions options;
  options.threads = 3;
  BatchLoader loader(*train, BatchSampler(100, 8, 1), options);
  BatchSampler sampler(100, 8, 1);
  for (int step = 0; step < 30; ++step) {
    const Result<Batch> batch = loader.next();
    ASSERT_TRUE(batch);
    const std::vector<std::int64_t> expected = sampler.next(0, 1);
    const std::vector<float> values = floats(*batch);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(values[2 * i], static_cast<float>(expected[i]));
  }
}

TEST_F(PluginTest, WhatIsNoPluginOrForAnotherReleaseIsRefused) {
  put("train.count", "10 3");
  refuses(Code::usage, "it is for version 999 of the interface, this program has version 1",
          OTHER_PLUGIN);
  refuses(Code::usage, "nowhere.so", "nowhere.so");
  refuses(Code::usage, "it has no function fedqueue_data_plugin", NO_PLUGIN);
}

TEST_F(PluginTest, ItsErrorsAreSaidInItsWords) {
  refuses(Code::data, "there is no count in " + directory_.string());
  put("train.count", "0 3");
  refuses(Code::data, "it has no samples");
  put("train.count", "10 1000001");
  refuses(Code::data, "it has 1000001 classes");
  put("train.count", "11 3");
  refuses(Code::data, "sample 10 has label 3 of 3 classes");
  put("train.count", "700 3");
  const Result<Dataset> train = load();
  ASSERT_TRUE(train);
  const std::vector<std::int64_t> some = {1, 666};
  const Result<Batch> batch = read_batch(*train, some);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, Code::data);
  EXPECT_THAT(batch.error().message, HasSubstr("reads samples: sample 666 is lost"));
}

TEST_F(PluginTest, ACheckLooksThroughAllOfItsSamples) {
  put("train.count", "10 3");
  std::ostringstream out;
  ASSERT_TRUE(data_check({directory_, EXAMPLE_PLUGIN}, out));
  EXPECT_THAT(out.str(), HasSubstr("train: 10 samples, 3 classes of 2, f32"));
  EXPECT_THAT(out.str(), HasSubstr("samples per label: 4 3 3"));
  EXPECT_THAT(out.str(), ::testing::Not(HasSubstr("held_out")));
  put("train.count", "700 3");
  EXPECT_THAT(data_check({directory_, EXAMPLE_PLUGIN}, out).error().message, HasSubstr("is lost"));
}

}  // namespace
}  // namespace fedqueue
