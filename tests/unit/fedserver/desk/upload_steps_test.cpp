#include "fedserver/desk/upload_steps.h"

#include <gtest/gtest.h>

namespace fedqueue {
namespace {

using Step = UploadSteps::Step;
using Kind = UploadSteps::Ending::Kind;

class UploadStepsTest : public testing::Test {
 protected:
  // Up to the end of the body.
  void receive(std::uint64_t offset, bool cut = false, std::optional<Error> failed = {}) {
    ASSERT_EQ(steps_.step(), Step::ask);
    EXPECT_TRUE(std::holds_alternative<UploadOffered>(steps_.question()));
    steps_.answered(Answer(Accepted{}));
    ASSERT_EQ(steps_.step(), Step::take);
    steps_.taken(false);
    ASSERT_EQ(steps_.step(), Step::begin);
    steps_.begun({});
    ASSERT_EQ(steps_.step(), Step::receive);
    steps_.received(offset, cut, failed);
    ASSERT_EQ(steps_.step(), Step::settle);
  }
  void decide(const Result<double>& screened) {
    receive(100);
    EXPECT_TRUE(steps_.whole());
    steps_.settled({});
    ASSERT_EQ(steps_.step(), Step::screen);
    steps_.screened(screened);
  }

  UploadSteps steps_{FacilityId("a"), {UpdateId("a.1.0.1"), {}, "token", "digest", 40, 60, 100}};
};

TEST_F(UploadStepsTest, NothingIsTakenThatTheEngineRefuses) {
  steps_.answered(Answer(Error{Code::conflict, "no", ""}));
  EXPECT_EQ(steps_.step(), Step::reply);
  EXPECT_EQ(steps_.ending().kind, Kind::answer);
}

TEST_F(UploadStepsTest, WhoWaitedForItsPlaceAsksAgainAndKeepsThePlace) {
  steps_.answered(Answer(Accepted{}));
  steps_.taken(true);
  ASSERT_EQ(steps_.step(), Step::ask);
  steps_.answered(Answer(Accepted{}));
  EXPECT_EQ(steps_.step(), Step::begin);
}

TEST_F(UploadStepsTest, ASoundUpdateIsDecidedWithItsNorm) {
  decide(2.5);
  ASSERT_EQ(steps_.step(), Step::decide);
  const Event question = steps_.question();
  const auto& stored = std::get<UpdateStored>(question);
  EXPECT_EQ(stored.norm, 2.5);
  EXPECT_EQ(stored.bytes, 100u);
  steps_.answered(Answer(UpdateAnswer{}));
  EXPECT_EQ(steps_.step(), Step::reply);
  EXPECT_EQ(steps_.ending().status, 201);
}

TEST_F(UploadStepsTest, AnUnsoundOneIsDecidedAsRefused) {
  decide(Error{Code::not_finite, "NaN", ""});
  const Event question = steps_.question();
  EXPECT_EQ(std::get<UpdateRefused>(question).why.code, Code::not_finite);
}

TEST_F(UploadStepsTest, AFaultOfTheServerKeepsTheBytesForAnotherTry) {
  decide(Error{Code::storage, "the disk", ""});
  ASSERT_EQ(steps_.step(), Step::put_aside);
  EXPECT_TRUE(steps_.may_come_again());
  steps_.put_aside_done();
  EXPECT_EQ(steps_.ending().error->code, Code::try_again);
}

TEST_F(UploadStepsTest, BytesThatTheEngineDoesNotWantInTheEndAreRemoved) {
  decide(1.0);
  steps_.answered(Answer(Error{Code::conflict, "fenced meanwhile", ""}));
  ASSERT_EQ(steps_.step(), Step::put_aside);
  EXPECT_FALSE(steps_.may_come_again());
  steps_.put_aside_done();
  EXPECT_EQ(steps_.step(), Step::reply);
}

TEST_F(UploadStepsTest, ACutBodyIsKeptWithoutAWord) {
  receive(70, true);
  EXPECT_FALSE(steps_.whole());
  steps_.settled({});
  EXPECT_EQ(steps_.ending().kind, Kind::cut);
}

TEST_F(UploadStepsTest, AFailureIsToldWithWhatIsDurable) {
  receive(70, false, Error{Code::storage_full, "full", ""});
  steps_.settled({});
  EXPECT_EQ(steps_.ending().kind, Kind::refuse);
  EXPECT_TRUE(steps_.ending().with_offset);
}

TEST(Owner, AnUpdateIsItsFacilitysAlone) {
  EXPECT_TRUE(check_owner(FacilityId("a"), "a.1.0.1"));
  EXPECT_EQ(check_owner(FacilityId("b"), "a.1.0.1").error().code, Code::identity);
  EXPECT_FALSE(check_owner(FacilityId("a"), "nonsense"));
}

}  // namespace
}  // namespace fedqueue
