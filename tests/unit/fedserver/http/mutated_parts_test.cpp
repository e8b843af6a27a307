// What a peer may write into targets, headers and bodies: whatever it is, the parsers answer or
// refuse, and what they answer keeps their promises.
#include <gtest/gtest.h>

#include "core/protocol/messages.h"
#include "fedserver/http/content.h"
#include "fedserver/http/target.h"
#include "tests/unit/fedserver/http/mutation.h"

namespace fedqueue::http::test {
namespace {

constexpr int rounds = 20000;  // five grammars: 100,000 texts

template <typename Look>
void for_mutations(const std::vector<std::string>& good, Look look) {
  Prng random(2605);
  for (int round = 0; round < rounds; ++round) {
    look(mutated(good[random.below(good.size())], good, random));
  }
}

TEST(MutatedParts, TargetsHaveARunAndAnIdOrAreRefused) {
  const std::vector<std::string> good = {"/v1/runs/mnist/updates/site-a.7.0.3",
                                         "/v1/runs/mnist/models/12",
                                         "/v1/runs/mnist/jobs/7.0",
                                         "/v1/runs/mnist/events?after=12",
                                         "/metrics",
                                         "/"};
  for_mutations(good, [](const std::string& text) {
    const Result<Target> target = parse_target(text);
    if (!target) {
      EXPECT_FALSE(target.error().message.empty());
      return;
    }
    EXPECT_TRUE(target->run.empty() || is_name(target->run)) << text.substr(0, 200);
    EXPECT_EQ(target->id.find('/'), std::string::npos) << text.substr(0, 200);
  });
}

TEST(MutatedParts, RangesStayWithinTheContent) {
  const std::vector<std::string> good = {"bytes=0-99", "bytes=500-", "bytes=-20", "bytes=1-2,5-9"};
  static constexpr std::uint64_t bytes = 1000;
  for_mutations(good, [](const std::string& text) {
    const RangeAsked asked = parse_range(text, bytes);
    if (asked.kind != RangeAsked::Kind::part) return;
    EXPECT_GT(asked.range.count, 0u) << text;
    EXPECT_LT(asked.range.first, bytes) << text;
    EXPECT_LE(asked.range.count, bytes - asked.range.first) << text;
  });
}

TEST(MutatedParts, ContentRangesStayWithinTheirTotal) {
  const std::vector<std::string> good = {"bytes 0-99/100", "bytes 5000000000-5999999999/6000000000",
                                         "bytes */100"};
  for_mutations(good, [](const std::string& text) {
    const Result<ContentRange> range = parse_content_range(text);
    if (!range) return;
    EXPECT_LE(range->first, range->total) << text;
    EXPECT_LE(range->count, range->total - range->first) << text;
  });
}

TEST(MutatedParts, MetadataIsSoundOrRefused) {
  const std::vector<std::string> good = {encode(UpdateMetadata{3, 40, 0.01, 0.4, 2.5, 0.3, 2560}),
                                         encode(UpdateMetadata{0, 1, 0, 0, 0, 0, 0})};
  for_mutations(good, [](const std::string& text) {
    const Result<UpdateMetadata> metadata = decode<UpdateMetadata>(text);
    if (!metadata) {
      EXPECT_FALSE(metadata.error().message.empty());
      return;
    }
    EXPECT_GE(metadata->base, 0) << text;
    EXPECT_GE(metadata->steps_run, 0) << text;
    EXPECT_TRUE(metadata->loss - metadata->loss == 0) << text;
  });
}

TEST(MutatedParts, RegistrationsAreSoundOrRefused) {
  JobRegistration registration;
  registration.attempt = AttemptId("7.0");
  registration.nonce = "0123456789abcdef";
  const std::vector<std::string> good = {encode(registration), encode(PlanRequest{}),
                                         encode(Heartbeat{"token", 7})};
  for_mutations(good, [](const std::string& text) {
    const Result<JobRegistration> decoded = decode<JobRegistration>(text);
    EXPECT_TRUE(!decoded || !decoded->attempt.str().empty()) << text;
    (void)decode<PlanRequest>(text);
    (void)decode<Heartbeat>(text);
  });
}

}  // namespace
}  // namespace fedqueue::http::test
