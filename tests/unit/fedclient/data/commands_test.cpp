#include "fedclient/data/commands.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/file.h"
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
