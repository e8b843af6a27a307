// The upload machine: resumes where the server is, comes back after what may pass, gives up at once
// after what cannot.
#include "core/protocol/upload.h"

#include <gtest/gtest.h>

namespace fedqueue {
namespace {

const Error lost{Code::network, "the connection was lost", ""};
const RetryPolicy policy{std::chrono::milliseconds(100), std::chrono::seconds(1),
                         std::chrono::seconds(10)};

TEST(Upload, ProbesSendsAndIsDone) {
  UploadMachine upload(1000, policy);
  ASSERT_EQ(upload.step(), UploadMachine::Step::probe);
  upload.offset_known(0);
  ASSERT_EQ(upload.step(), UploadMachine::Step::send);
  upload.answered({});
  EXPECT_EQ(upload.step(), UploadMachine::Step::done);
}

TEST(Upload, GoesOnAtTheServersOffsetAfterACut) {
  UploadMachine upload(1000, policy);
  upload.offset_known(0);
  upload.failed(lost, {}, 0);
  ASSERT_EQ(upload.step(), UploadMachine::Step::wait);
  EXPECT_GT(upload.delay().count(), 0);
  upload.waited();
  ASSERT_EQ(upload.step(), UploadMachine::Step::probe);
  upload.offset_known(640);
  EXPECT_EQ(upload.offset(), 640u);
}

TEST(Upload, IsDoneWhenTheAnswerAloneWasLost) {
  UploadMachine upload(1000, policy);
  upload.offset_known(0);
  upload.failed(lost, {}, 0);
  upload.waited();
  upload.answered({});
  EXPECT_EQ(upload.step(), UploadMachine::Step::done);
}

TEST(Upload, StartsOverWhenTheServerHasMoreThanThereIs) {
  UploadMachine upload(1000, policy);
  upload.offset_known(1001);
  EXPECT_EQ(upload.offset(), 0u);
}

TEST(Upload, GivesUpAtOnceOnWhatCannotPass) {
  for (const Code code : {Code::wrong_base, Code::identity, Code::revoked, Code::tls_untrusted,
                          Code::too_large, Code::conflict, Code::run_finished}) {
    UploadMachine upload(1000, policy);
    upload.offset_known(0);
    upload.failed({code, "no", ""}, {}, 0);
    ASSERT_EQ(upload.step(), UploadMachine::Step::failed) << code_name(code);
    EXPECT_EQ(upload.error().code, code);
  }
}

TEST(Upload, GivesUpAfterFailingForLong) {
  UploadMachine upload(1000, policy);
  int tries = 0;
  while (upload.step() != UploadMachine::Step::failed && tries < 100) {
    upload.failed(lost, std::chrono::seconds(1), 0.5);
    if (upload.step() == UploadMachine::Step::wait) upload.waited();
    ++tries;
  }
  EXPECT_EQ(tries, 12) << "the first failure starts the clock of ten seconds";
}

TEST(Upload, ProgressResetsThePatience) {
  UploadMachine upload(1'000'000, policy);
  std::uint64_t offset = 0;
  for (int i = 0; i < 50; ++i) {
    upload.offset_known(offset += 1000);
    upload.failed(lost, std::chrono::seconds(5), 0);
    ASSERT_EQ(upload.step(), UploadMachine::Step::wait) << i;
    upload.waited();
  }
}

TEST(Upload, WaitsLongerEachTimeUpToABound) {
  EXPECT_EQ(backoff(policy, 1, 0), std::chrono::milliseconds(50));
  EXPECT_EQ(backoff(policy, 2, 0), std::chrono::milliseconds(100));
  EXPECT_EQ(backoff(policy, 1000, 0), std::chrono::milliseconds(500));
  EXPECT_LT(backoff(policy, 1000, 0.999), std::chrono::seconds(1));
}

}  // namespace
}  // namespace fedqueue
