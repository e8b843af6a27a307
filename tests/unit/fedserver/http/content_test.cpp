#include "fedserver/http/content.h"

#include <gtest/gtest.h>

namespace fedqueue::http {
namespace {

using Kind = RangeAsked::Kind;

TEST(Range, ServesOneRange) {
  EXPECT_EQ(parse_range("bytes=0-99", 1000).range, (ByteRange{0, 100}));
  EXPECT_EQ(parse_range("bytes=900-", 1000).range, (ByteRange{900, 100}));
  EXPECT_EQ(parse_range("bytes=-10", 1000).range, (ByteRange{990, 10}));
  EXPECT_EQ(parse_range("bytes=990-5000", 1000).range, (ByteRange{990, 10}));
  EXPECT_EQ(parse_range("bytes=-5000", 1000).range, (ByteRange{0, 1000}));
}

TEST(Range, SendsTheWholeForWhatItDoesNotServe) {
  for (const char* header : {"", "bytes", "bytes=", "bytes=a-b", "lines=0-1", "bytes=0-1,5-6",
                             "bytes=5-2", "bytes=--5", "bytes=18446744073709551616-"}) {
    EXPECT_EQ(parse_range(header, 1000).kind, Kind::whole) << header;
  }
}

TEST(Range, SaysWhenThereIsNothingThere) {
  EXPECT_EQ(parse_range("bytes=1000-", 1000).kind, Kind::unsatisfiable);
  EXPECT_EQ(parse_range("bytes=-0", 1000).kind, Kind::unsatisfiable);
  EXPECT_EQ(parse_range("bytes=0-", 0).kind, Kind::unsatisfiable);
}

TEST(Range, KnowsSizesBeyond32Bits) {
  const std::uint64_t five_gib = 5ull << 30;
  for (const std::uint64_t at : {(1ull << 31) - 1, 1ull << 31, (1ull << 32) + 1}) {
    const RangeAsked asked = parse_range("bytes=" + std::to_string(at) + "-", five_gib);
    EXPECT_EQ(asked.kind, Kind::part);
    EXPECT_EQ(asked.range, (ByteRange{at, five_gib - at}));
  }
}

TEST(ContentRange, KnowsSizesBeyond32Bits) {
  for (const std::uint64_t at : {(1ull << 31) - 1, 1ull << 31, (1ull << 32) + 1}) {
    const std::uint64_t total = at + 10;
    const auto range = parse_content_range("bytes " + std::to_string(at) + "-" +
                                           std::to_string(total - 1) + "/" + std::to_string(total));
    ASSERT_TRUE(range) << range.error().message;
    EXPECT_EQ(range->first, at);
    EXPECT_EQ(range->count, 10u);
    EXPECT_EQ(range->total, total);
  }
}

TEST(ContentRange, HasAWordForNothingLeft) {
  const auto range = parse_content_range("bytes */500");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first, 500u);
  EXPECT_EQ(range->count, 0u);
  EXPECT_EQ(range->total, 500u);
}

TEST(ContentRange, RefusesWhatDoesNotFit) {
  for (const char* header : {"", "bytes", "bytes 0-1", "bytes 0-1/", "bytes 0-1/1", "bytes 5-4/10",
                             "bytes 0-1/*", "bytes -1-2/10", "bytes 0x1-2/10", "lines 0-1/2",
                             "bytes 0-18446744073709551616/5", "bytes 0-1/18446744073709551616"}) {
    const auto range = parse_content_range(header);
    ASSERT_FALSE(range) << header;
    EXPECT_EQ(range.error().code, Code::usage);
    EXPECT_FALSE(range.error().cure.empty());
  }
}

TEST(EntityTags, FindsItsOwn) {
  EXPECT_TRUE(names_tag("\"abc\"", "abc"));
  EXPECT_TRUE(names_tag("\"x\", W/\"abc\"", "abc"));
  EXPECT_TRUE(names_tag("*", "abc"));
  EXPECT_FALSE(names_tag("\"abcd\"", "abc"));
  EXPECT_FALSE(names_tag("", "abc"));
}

}  // namespace
}  // namespace fedqueue::http
