// The ground everything stands on: names, texts, checksums, files and random numbers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/digest.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/ids.h"
#include "core/base/prng.h"
#include "core/base/result.h"
#include "core/base/text.h"
#include "core/base/time.h"

namespace fedqueue {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Ids, NamesAreSafeEverywhere) {
  EXPECT_TRUE(is_name("site-a"));
  EXPECT_TRUE(is_name("0"));
  EXPECT_TRUE(is_name(std::string(63, 'a')));
  for (const char* bad : {"", "Site", "a.b", "a/b", "a b", "a_b", "é", "..", "a\n"}) {
    EXPECT_FALSE(is_name(bad)) << bad;
  }
  EXPECT_FALSE(is_name(std::string(64, 'a')));
}

TEST(Ids, AttemptAndUpdateIdsRoundTrip) {
  const AttemptId attempt = make_attempt_id("10001_4", 2);
  EXPECT_EQ(attempt.str(), "10001_4.2");
  const auto attempt_parts = parse_attempt_id(attempt.str());
  ASSERT_TRUE(attempt_parts);
  EXPECT_EQ(attempt_parts->job_id, "10001_4");
  EXPECT_EQ(attempt_parts->restart_count, 2);

  const UpdateId update = make_update_id(FacilityId("site-a"), attempt, 3);
  EXPECT_EQ(update.str(), "site-a.10001_4.2.3");
  const auto update_parts = parse_update_id(update.str());
  ASSERT_TRUE(update_parts);
  EXPECT_EQ(update_parts->facility, FacilityId("site-a"));
  EXPECT_EQ(update_parts->attempt, attempt);
  EXPECT_EQ(update_parts->segment, 3);
}

TEST(Ids, EveryIdHasOneSpelling) {
  for (const char* bad : {"", "10001", "10001.", ".0", "10001.01", "10001.-1", "10001.0 ", "x.0",
                          "_1.0", "10001.9999999999"}) {
    EXPECT_FALSE(parse_attempt_id(bad)) << bad;
  }
  for (const char* bad : {"", "site-a", "site-a.1.0", "site-a.1.0.0", "Site.1.0.1", "site-a.1.0.01",
                          "a.b.1.0.1", "site-a..0.1"}) {
    EXPECT_FALSE(parse_update_id(bad)) << bad;
  }
}

TEST(Text, NearestFindsTheWordThatWasMeant) {
  const std::vector<std::string> keys = {"t_sync", "lr_base", "warm_up_steps", "alpha_admission"};
  EXPECT_EQ(nearest("t_snyc", keys), "t_sync");
  EXPECT_EQ(nearest("warmup_steps", keys), "warm_up_steps");
  EXPECT_EQ(nearest("alpha_admision", keys), "alpha_admission");
  EXPECT_EQ(nearest("momentum", keys), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Text, SplitsJoinsAndTrims) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_EQ(join({"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

TEST(Text, NumbersAreTheWholeText) {
  EXPECT_EQ(parse_integer("-42"), -42);
  EXPECT_EQ(parse_integer("9223372036854775807"), 9223372036854775807);
  for (const char* bad : {"", "1x", " 1", "+1", "9223372036854775808", "1.0"}) {
    EXPECT_FALSE(parse_integer(bad)) << bad;
  }
  EXPECT_EQ(parse_real("1e-3"), 1e-3);
  for (const char* bad : {"", "1,5", "nan", "inf", "1e999", "1 "}) {
    EXPECT_FALSE(parse_real(bad)) << bad;
  }
}

TEST(Text, Utf8IsCheckedAsTheStandardSays) {
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("plain"));
  EXPECT_TRUE(is_utf8("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xf4\x8f\xbf\xbf"));
  EXPECT_FALSE(is_utf8("\x80")) << "a continuation without a lead";
  EXPECT_FALSE(is_utf8("\xc3")) << "cut short";
  EXPECT_FALSE(is_utf8("\xc0\xaf")) << "an overlong slash";
  EXPECT_FALSE(is_utf8("\xe0\x80\xaf"));
  EXPECT_FALSE(is_utf8("\xed\xa0\x80")) << "a surrogate";
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80")) << "beyond U+10FFFF";
  EXPECT_FALSE(is_utf8("\xff"));
}

TEST(Text, TimestampsAreUtcWithMilliseconds) {
  EXPECT_THAT(utc_now(), testing::MatchesRegex(
                             "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z"));
}

TEST(Digest, KnownVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // Seed 0 of the empty input, from the specification of XXH3.
  EXPECT_EQ(xxh128_hex({}), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, PiecesGiveTheDigestOfTheWhole) {
  const std::string text(1000, 'x');
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  Xxh128 fast;
  Sha256 strong;
  for (std::size_t at = 0; at < text.size(); at += 37) {
    const auto piece = bytes.subspan(at, std::min<std::size_t>(37, text.size() - at));
    fast.update(piece);
    strong.update(piece);
    (void)strong.hex();  // looking does not disturb
  }
  EXPECT_EQ(fast.hex(), xxh128_hex(bytes));
  EXPECT_EQ(strong.hex(), sha256_hex(bytes));
  EXPECT_NE(fast.hex(), xxh128_hex(bytes.subspan(1)));
}

TEST(Error, CodesHaveNamesAndNamesHaveCodes) {
  EXPECT_STREQ(code_name(Code::model_mismatch), "model-mismatch");
  EXPECT_EQ(code_named("model-mismatch"), Code::model_mismatch);
  EXPECT_EQ(code_named("nonsense"), Code::internal);
  EXPECT_EQ(storage_error("write x", ENOSPC).code, Code::storage_full);
  EXPECT_EQ(storage_error("write x", EIO).code, Code::storage);
  const Error outer = within("publish round 7", Error{Code::storage, "disk", "buy one"});
  EXPECT_EQ(outer.message, "publish round 7: disk");
  EXPECT_EQ(outer.cure, "buy one");
  EXPECT_EQ(exit_code(outer), 62);
}

TEST(Result, HoldsAValueOrTheReason) {
  const Result<int> good = 4;
  EXPECT_TRUE(good);
  EXPECT_EQ(*good, 4);
  const Result<int> bad = Error{Code::data, "no", ""};
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.value_or(7), 7);
  EXPECT_EQ(bad.error().code, Code::data);
  EXPECT_DEATH((void)bad.value(), "broken invariant");
}

TEST(Time, DurationsAreMicroseconds) {
  EXPECT_EQ(from_seconds(1.5).count(), 1'500'000);
  EXPECT_DOUBLE_EQ(to_seconds(Duration(250'000)), 0.25);
  EXPECT_EQ(to_micros(from_micros(42) + from_seconds(1)), 1'000'042);
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "fedqueue-base-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  fs::path folder_;
};

TEST_F(Files, AtomicWritesReplaceTheWholeFileAndSetItsMode) {
  const fs::path path = folder_ / "key.pem";
  ASSERT_TRUE(write_file_atomic(path, "first, longer text"));
  ASSERT_TRUE(write_file_atomic(path, "second", 0600));
  EXPECT_EQ(*read_file(path), "second");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777u, 0600u);
  EXPECT_EQ(entries(), 1u) << "no temporary file is left";
}

TEST_F(Files, AFailedWriteLeavesTheOldFile) {
  const fs::path path = folder_ / "occupied";
  fs::create_directory(path);
  std::ofstream(path / "inside") << "kept";
  EXPECT_EQ(write_file_atomic(path, "text").error().code, Code::storage);
  EXPECT_TRUE(fs::exists(path / "inside"));
  EXPECT_EQ(entries(), 1u);
  EXPECT_FALSE(write_file_atomic(folder_ / "missing" / "file", "text"));
}

TEST_F(Files, ReadingIsBoundedAndNamesTheFile) {
  const fs::path path = folder_ / "large";
  ASSERT_TRUE(write_file_atomic(path, std::string(1000, 'x')));
  EXPECT_EQ(read_file(path, 999).error().code, Code::too_large);
  EXPECT_EQ(read_file(path, 1000)->size(), 1000u);
  EXPECT_THAT(read_file(folder_ / "missing").error().message, HasSubstr("missing"));
}

TEST_F(Files, DescriptorsCloseOnceAndMove) {
  auto opened = open_file(folder_ / "file", O_RDWR | O_CREAT);
  ASSERT_TRUE(opened);
  const int number = opened->get();
  FileDescriptor moved = std::move(*opened);
  EXPECT_EQ(moved.get(), number);
  EXPECT_NE(::fcntl(number, F_GETFD) & FD_CLOEXEC, 0) << "not inherited by child processes";
  moved.reset();
  EXPECT_FALSE(moved);
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

TEST_F(Files, ALockIsHeldByOneAndSaysByWhom) {
  const fs::path path = folder_ / "lock";
  {
    auto first = LockFile::acquire(path, "fedserver, process 4711 on login1\n");
    ASSERT_TRUE(first);
    const auto second = LockFile::acquire(path, "another");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::already_running);
    EXPECT_THAT(second.error().message, HasSubstr("process 4711 on login1"));
  }
  const auto later = LockFile::acquire(path, "short");
  ASSERT_TRUE(later) << "the lock ends with its holder";
  EXPECT_EQ(*read_file(path), "short");
}

// The bounds below are more than five standard errors wide for the number of draws.
TEST(Prng, UniformNormalAndGammaHaveTheirMoments) {
  constexpr int draws = 200'000;
  Prng random(7);
  const auto moments = [&](auto draw) {
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < draws; ++i) {
      const double x = draw();
      sum += x;
      squares += x * x;
    }
    const double mean = sum / draws;
    return std::pair(mean, squares / draws - mean * mean);
  };
  const auto uniform = moments([&] { return random.uniform(); });
  EXPECT_NEAR(uniform.first, 0.5, 0.005);
  EXPECT_NEAR(uniform.second, 1.0 / 12, 0.002);
  const auto normal = moments([&] { return random.normal(); });
  EXPECT_NEAR(normal.first, 0, 0.02);
  EXPECT_NEAR(normal.second, 1, 0.03);
  for (const double shape : {0.3, 1.0, 4.5}) {
    const auto gamma = moments([&] { return random.gamma(shape); });
    EXPECT_NEAR(gamma.first, shape, 0.02 * std::sqrt(shape) + 0.005) << shape;
    EXPECT_NEAR(gamma.second, shape, 0.15 * shape) << shape;
  }
}

TEST(Prng, BelowIsEvenAndSeedsGiveTheirOwnStreams) {
  Prng random(3);
  std::vector<int> counts(10);
  for (int i = 0; i < 100'000; ++i) ++counts[random.below(10)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 600);
  EXPECT_EQ(random.below(1), 0u);

  Prng one(1), again(1), other(2);
  std::set<std::uint64_t> values;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t value = one.next();
    EXPECT_EQ(value, again.next());
    values.insert(value);
    values.insert(other.next());
  }
  EXPECT_EQ(values.size(), 200u);
}

}  // namespace
}  // namespace fedqueue
