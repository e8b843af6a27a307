#include "core/config/ini.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fedqueue {
namespace {

using ::testing::HasSubstr;

TEST(IniTest, SectionsArePrefixesAndLinesAreKept) {
  const auto entries = parse_ini("a = 1\r\n# c\n; c\n\n[x.y]\nb=2 # why\n[ z ]\nc =\n", "f.ini");
  ASSERT_TRUE(entries.has_value());
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_EQ((*entries)[0].value, "1");
  EXPECT_EQ((*entries)[1].name, "x.y.b");
  EXPECT_EQ((*entries)[1].value, "2");
  EXPECT_EQ((*entries)[1].line, 6);
  EXPECT_EQ((*entries)[2].name, "z.c");
  EXPECT_EQ((*entries)[2].value, "");
}

TEST(IniTest, AHashBelongsToTheValueUnlessABlankPrecedesIt) {
  const auto entries = parse_ini("url = https://host/#part\nq = \" a # b \" # why\n", "f.ini");
  ASSERT_TRUE(entries.has_value());
  EXPECT_EQ((*entries)[0].value, "https://host/#part");
  EXPECT_EQ((*entries)[1].value, " a # b ");
}

TEST(IniTest, AByteOrderMarkIsIgnored) {
  const auto entries = parse_ini("\xef\xbb\xbf[s]\na=1", "f.ini");
  ASSERT_TRUE(entries.has_value());
  EXPECT_EQ((*entries)[0].name, "s.a");
}

TEST(IniTest, BrokenLinesAreNamed) {
  for (const char* text : {"\nword\n", "\n= 3\n", "\n[open\n", "\n[]\n", "\n[a] b\n",
                           "\na = \"open\n", "\na = \"x\" y\n", "\na = \xff\n"}) {
    const auto entries = parse_ini(text, "f.ini");
    ASSERT_FALSE(entries.has_value()) << text;
    EXPECT_EQ(entries.error().code, Code::usage);
    EXPECT_THAT(entries.error().message, HasSubstr("f.ini line 2"));
  }
}

}  // namespace
}  // namespace fedqueue
