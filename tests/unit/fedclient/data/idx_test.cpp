#include "fedclient/data/idx.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "files.h"

namespace fedqueue {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class IdxTest : public FilesTest {
 protected:
  // Reading must fail as a data error that names the file and says this.
  void expect_refused(const std::filesystem::path& path, const std::string& why) {
    const Result<IdxArray> array = read_idx(path);
    ASSERT_FALSE(array);
    EXPECT_EQ(array.error().code, Code::data);
    EXPECT_THAT(array.error().message, HasSubstr(path.filename().string()));
    EXPECT_THAT(array.error().message, HasSubstr(why));
  }
};

const std::string kTwoByThree(
    "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
    "abcdef",
    18);

TEST_F(IdxTest, ReadsAPlainFile) {
  const Result<IdxArray> array = read_idx(put("plain", kTwoByThree));
  ASSERT_TRUE(array);
  EXPECT_THAT(array->shape, ElementsAre(2, 3));
  EXPECT_THAT(array->bytes, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
}

TEST_F(IdxTest, ReadsACompressedFile) {
  const std::string path = (directory_ / "packed.gz").string();
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, kTwoByThree.data(), 18), 18);
  gzclose(file);
  const Result<IdxArray> array = read_idx(path);
  ASSERT_TRUE(array);
  EXPECT_THAT(array->bytes, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));

  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_FALSE(read_idx(path));
}

TEST_F(IdxTest, ReadsBackWhatItWrote) {
  const std::vector<std::uint8_t> bytes = {0, 255, 7, 8};
  ASSERT_TRUE(write_idx(directory_ / "out", {2, 1, 2}, bytes));
  const Result<IdxArray> array = read_idx(directory_ / "out");
  ASSERT_TRUE(array);
  EXPECT_THAT(array->shape, ElementsAre(2, 1, 2));
  EXPECT_EQ(array->bytes, bytes);
}

TEST_F(IdxTest, RefusesATruncatedFileAtEveryLength) {
  for (std::size_t length = 0; length < kTwoByThree.size(); ++length) {
    expect_refused(put("short", kTwoByThree.substr(0, length)), "truncated");
  }
}

TEST_F(IdxTest, RefusesBytesAfterTheEnd) {
  expect_refused(put("long", kTwoByThree + "x"), "after the last element");
}

TEST_F(IdxTest, RefusesOtherFormats) {
  expect_refused(put("png", "\x89PNG and more"), "not an IDX file");
  expect_refused(put("floats", std::string("\0\0\x0d\x01\0\0\0\0", 8)), "type code 13");
  expect_refused(put("flat", std::string("\0\0\x08\0", 4)), "dimensions");
}

TEST_F(IdxTest, RefusesDimensionsThatOverflowWithoutAllocatingThem) {
  expect_refused(put("huge", std::string("\0\0\x08\x03", 4) + std::string(12, '\xff')), "256 GiB");
  // Within the limit, yet not there: found when the bytes run out.
  expect_refused(put("big", std::string("\0\0\x08\x02\0\xff\0\0\0\0\0\xff", 12)), "truncated");
}

TEST_F(IdxTest, SaysThatAFileIsNotThere) { expect_refused(directory_ / "absent", "No such file"); }

}  // namespace
}  // namespace fedqueue
