#include "fedclient/data/commands.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/file.h"
#include "fedclient/data/checksums.h"
#include "files.h"

namespace fedqueue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DataSplitTest : public FilesTest {
 protected:
  DataSplitTest() {
    EXPECT_TRUE(write_dataset(directory_ / "whole", Split::train, counted_dataset(200, 4)));
    options_.dataset = directory_ / "whole";
    options_.output = directory_ / "parts";
    options_.facilities = {"site-a", "site-b", "site-c"};
  }
  DataSplitOptions options_;
  std::ostringstream out_;
};

TEST_F(DataSplitTest, WritesALoadableDirectoryPerFacilityAndTheirSummary) {
  ASSERT_TRUE(data_split(options_, out_));
  const auto summary = nlohmann::json::parse(*read_file(directory_ / "parts" / "split.json"));
  std::int64_t total = 0;
  for (const auto& facility : summary.at("facilities")) {
    const std::string name = facility.at("name");
    const Result<Dataset> part = load_dataset(directory_ / "parts" / name, Split::train);
    ASSERT_TRUE(part);
    EXPECT_EQ(part->samples(), facility.at("samples"));
    std::vector<std::int64_t> labels = part->histogram();
    labels.resize(4, 0);
    EXPECT_EQ(labels, facility.at("labels").get<std::vector<std::int64_t>>());
    EXPECT_THAT(out_.str(), HasSubstr(name));
    total += part->samples();
  }
  EXPECT_EQ(total, 200);
  EXPECT_EQ(summary.at("alpha"), 0.3);
}

TEST_F(DataSplitTest, PrintsJsonAloneWhenAsked) {
  options_.json = true;
  options_.alpha.reset();
  ASSERT_TRUE(data_split(options_, out_));
  EXPECT_EQ(nlohmann::json::parse(out_.str()).at("alpha"), "iid");
}

TEST_F(DataSplitTest, AMissingDatasetFailsBeforeAnythingIsWritten) {
  options_.dataset = directory_ / "nowhere";
  EXPECT_EQ(data_split(options_, out_).error().code, Code::data);
  EXPECT_FALSE(std::filesystem::exists(options_.output));
}

TEST_F(DataSplitTest, DealsShardsOfSortedLabels) {
  options_.shards = 1;
  options_.json = true;
  options_.facilities = {"site-a", "site-b", "site-c", "site-d"};
  ASSERT_TRUE(data_split(options_, out_));
  const auto summary = nlohmann::json::parse(out_.str());
  EXPECT_EQ(summary.at("shards"), 1);
  for (const auto& facility : summary.at("facilities")) {
    const auto labels = facility.at("labels").get<std::vector<int>>();
    EXPECT_EQ(std::count(labels.begin(), labels.end(), 50), 1);
    EXPECT_EQ(std::count(labels.begin(), labels.end(), 0), 3);
  }
}

// Every byte is its place in the alphabet.
void put_tokens(const std::filesystem::path& directory, int count) {
  std::filesystem::create_directories(directory);
  std::string text;
  for (int i = 0; i < count; ++i) text += std::string({static_cast<char>(i % 26), '\0'});
  std::ofstream(directory / "train.tokens", std::ios::binary) << text;
  std::ofstream(directory / "tokens.json") << R"({"dtype": "u16", "vocabulary": 26})";
}

TEST_F(DataSplitTest, CutsTokensIntoPiecesThatMakeUpTheWhole) {
  put_tokens(directory_ / "text", 1000);
  options_.dataset = directory_ / "text";
  for (const auto alpha : {std::optional<double>(0.3), std::optional<double>()}) {
    options_.alpha = alpha;
    ASSERT_TRUE(data_split(options_, out_));
    std::string joined;
    std::vector<std::size_t> lengths;
    for (const std::string& name : options_.facilities) {
      const std::filesystem::path part = options_.output / name;
      ASSERT_TRUE(load_dataset(part, Split::train));
      joined += *read_file(part / "train.tokens");
      lengths.push_back(std::filesystem::file_size(part / "train.tokens") / 2);
      EXPECT_GE(lengths.back(), 10u);
    }
    EXPECT_EQ(joined, *read_file(directory_ / "text" / "train.tokens"));
    const bool even = *std::max_element(lengths.begin(), lengths.end()) < 336;
    EXPECT_EQ(even, !alpha.has_value());
  }
  options_.shards = 2;
  EXPECT_EQ(data_split(options_, out_).error().code, Code::usage);
}

class DataCheckTest : public FilesTest {
 protected:
  std::string check(bool json = false) {
    std::ostringstream out;
    const Status status = data_check({directory_, {}, json}, out);
    return status ? out.str() : status.error().message;
  }
};

TEST_F(DataCheckTest, SaysWhatIsThereAndThatItIsAsTheManifestSays) {
  ASSERT_TRUE(write_dataset(directory_, Split::train, counted_dataset(7, 3)));
  EXPECT_THAT(check(), HasSubstr("train: 7 samples, 3 classes of 1x2x3, u8 (idx)\n"
                                 "  samples per label: 3 2 2\nno manifest.sha256"));
  ASSERT_TRUE(write_checksums(directory_));
  ASSERT_TRUE(write_dataset(directory_, Split::held_out, counted_dataset(4, 2)));
  EXPECT_THAT(check(), HasSubstr("held_out: 4 samples"));
  EXPECT_THAT(check(), HasSubstr("2 files as in manifest.sha256"));
  const auto json = nlohmann::json::parse(check(true));
  EXPECT_EQ(json.at("files_verified"), 2);
  EXPECT_EQ(json.at("train").at("histogram"), nlohmann::json({3, 2, 2}));
  EXPECT_EQ(json.at("held_out").at("samples"), 4);
  EXPECT_EQ(json.at("held_out").at("input"), "1x2x3");
}

TEST_F(DataCheckTest, CountsTokensAndFindsThoseOutsideTheVocabulary) {
  put_tokens(directory_, 53);
  EXPECT_THAT(check(), HasSubstr("train: 53 tokens, 26 words used of 26, u16 (tokens)"));
  const auto json = nlohmann::json::parse(check(true));
  EXPECT_EQ(json.at("train").at("tokens"), 53);
  EXPECT_EQ(json.at("train").at("histogram").at(0), 3);
  EXPECT_EQ(json.at("train").at("histogram").at(1), 2);
  put("tokens.json", R"({"dtype": "u16", "vocabulary": 25})");
  EXPECT_THAT(check(), HasSubstr("sample 24 has a token outside the vocabulary of 25"));
}

TEST_F(DataCheckTest, AnEmptyDirectoryIsAnError) {
  EXPECT_THAT(check(), HasSubstr("there is nothing to train on"));
}

class DataTokensTest : public FilesTest {};

TEST_F(DataTokensTest, MakesTokensOfBytesAndHoldsTheEndsOut) {
  DataTokensOptions options{
      {put("a.txt", "abcdefghij"), put("b.txt", "0123456789")}, directory_ / "text", 0.2};
  std::ostringstream out;
  ASSERT_TRUE(data_tokens(options, out));
  const Result<Dataset> train = load_dataset(directory_ / "text", Split::train);
  ASSERT_TRUE(train) << train.error().message;
  EXPECT_EQ(train->classes, 256);
  EXPECT_EQ(train->tokens(), 16);
  EXPECT_THAT(gather(*train, 6, 9).targets, ElementsAre('h', '0', '1'));
  const Result<Dataset> held_out = load_dataset(directory_ / "text", Split::held_out);
  ASSERT_TRUE(held_out);
  EXPECT_THAT(gather(*held_out, 0, 3).targets, ElementsAre('j', '8', '9'));
  EXPECT_THAT(out.str(), HasSubstr("16 tokens to train on and 4 held out"));
  EXPECT_EQ(verify_checksums(directory_ / "text")->value(), 3);
}

TEST_F(DataTokensTest, LeavesNothingBehindWhenATextIsMissingOrTooShort) {
  std::ostringstream out;
  const DataTokensOptions missing{{directory_ / "none.txt"}, directory_ / "text"};
  EXPECT_EQ(data_tokens(missing, out).error().code, Code::data);
  const DataTokensOptions tiny{{put("a.txt", "abc")}, directory_ / "text"};
  EXPECT_THAT(data_tokens(tiny, out).error().message, HasSubstr("too few"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "text"));
}

TEST(FacilityList, IsANumberOrNames) {
  EXPECT_THAT(*parse_facility_list("2"), ElementsAre("facility-1", "facility-2"));
  EXPECT_THAT(*parse_facility_list("hpc-x, b2"), ElementsAre("hpc-x", "b2"));
  for (const char* bad : {"0", "-3", "", "a,,b", "Site", "a,a", "../x", "999999999"}) {
    EXPECT_FALSE(parse_facility_list(bad)) << bad;
  }
}

TEST(Alpha, IsAPositiveNumberOrIid) {
  EXPECT_FALSE(parse_alpha("iid")->has_value());
  EXPECT_EQ(parse_alpha("0.5")->value(), 0.5);
  for (const char* bad : {"0", "-1", "x", "", "nan", "inf"}) EXPECT_FALSE(parse_alpha(bad)) << bad;
}

}  // namespace
}  // namespace fedqueue
