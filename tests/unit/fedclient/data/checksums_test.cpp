#include "fedclient/data/checksums.h"

#include <gmock/gmock.h>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "files.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;

using ChecksumsTest = FilesTest;

TEST_F(ChecksumsTest, AreThoseOfSha256sum) {
  put("b", "bee");
  put("a", "");
  put(".hidden", "x");
  ASSERT_TRUE(write_checksums(directory_));
  EXPECT_EQ(*read_file(directory_ / kChecksumFile),
            sha256_hex("") + "  a\n" + sha256_hex("bee") + "  b\n");
  ASSERT_TRUE(write_checksums(directory_));  // the manifest is not one of the files
  EXPECT_EQ(verify_checksums(directory_)->value(), 2);
}

TEST_F(ChecksumsTest, WithoutAManifestNothingIsCompared) {
  put("a", "x");
  const Result<std::optional<int>> verified = verify_checksums(directory_);
  ASSERT_TRUE(verified);
  EXPECT_FALSE(verified->has_value());
}

TEST_F(ChecksumsTest, NameTheFileThatDiffersOrIsMissing) {
  put("a", "x");
  put("b", "y");
  ASSERT_TRUE(write_checksums(directory_));
  put("b", "z");
  EXPECT_THAT(verify_checksums(directory_).error().message, HasSubstr("/b: its SHA-256"));
  std::filesystem::remove(directory_ / "a");
  EXPECT_THAT(verify_checksums(directory_).error().message, HasSubstr("/a: the manifest names it"));
  EXPECT_EQ(verify_checksums(directory_).error().code, Code::data);
  for (const char* bad : {"what\n", "  ../a\n"}) {
    put(kChecksumFile, std::string(bad).starts_with(' ') ? std::string(64, '0') + bad : bad);
    EXPECT_THAT(verify_checksums(directory_).error().message, HasSubstr("a line is not a"));
  }
}

}  // namespace
}  // namespace fedqueue
