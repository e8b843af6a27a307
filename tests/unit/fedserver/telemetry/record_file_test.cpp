#include "fedserver/telemetry/record_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "core/base/text.h"
#include "tests/unit/core/config/scratch.h"

namespace fedqueue {
namespace {

RecordFile open_at(const std::filesystem::path& path) {
  auto file = RecordFile::open(path, "name,sequence", [](std::string_view line) {
    return parse_integer(line.substr(line.rfind(',') + 1)).value_or(0);
  });
  EXPECT_TRUE(file) << (file ? "" : file.error().message);
  return std::move(*file);
}

TEST(RecordFile, GoesOnAfterTheLastRow) {
  const Scratch scratch;
  const auto path = scratch / "rows.csv";
  open_at(path).append(4, "four,4\n");
  RecordFile file = open_at(path);
  EXPECT_EQ(file.last_sequence(), 4);
  file.append(3, "three,3\n");
  file.append(4, "four,4\n");
  file.append(5, "five,5\nfive again,5\n");
  EXPECT_EQ(Scratch::content(path), "name,sequence\nfour,4\nfive,5\nfive again,5\n");
}

TEST(RecordFile, RemovesALineThatAKillTore) {
  const Scratch scratch;
  const auto path = scratch.file("rows.csv", "name,sequence\nfour,4\nfi");
  RecordFile file = open_at(path);
  EXPECT_EQ(file.last_sequence(), 4);
  file.append(5, "five,5\n");
  EXPECT_EQ(Scratch::content(path), "name,sequence\nfour,4\nfive,5\n");
}

TEST(RecordFile, BeginsAnEmptyFileWithItsHeader) {
  const Scratch scratch;
  const auto path = scratch.file("rows.csv", "nam");
  EXPECT_EQ(open_at(path).last_sequence(), 0);
  EXPECT_EQ(open_at(path).last_sequence(), 0);
  EXPECT_EQ(Scratch::content(path), "name,sequence\n");
}

TEST(RecordFile, AFullDiskLosesRowsAndNothingElse) {
  const Scratch scratch;
  const auto path = scratch / "rows.csv";
  RecordFile file = open_at(path);
  file.append(1, "one,1\n");
  // From here on files of this process may have 24 bytes.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{24, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  file.append(2, "a row that does not fit,2\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(file.rows_lost(), 1u);
  file.append(3, "three,3\n");
  EXPECT_EQ(Scratch::content(path), "name,sequence\none,1\nthree,3\n");
}

}  // namespace
}  // namespace fedqueue
