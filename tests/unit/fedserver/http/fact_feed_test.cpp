#include "fedserver/http/fact_feed.h"

#include <gtest/gtest.h>

namespace fedqueue::http {
namespace {

JournalRow row_of(std::int64_t sequence, const Fact& fact) {
  return {sequence, Instant{}, fact_kind(fact), encode_fact(fact)};
}

void happen(FactFeed& feed, std::int64_t sequence, const Fact& fact) {
  feed.on_replayed(row_of(sequence, fact), fact);
}

Fact joined(const std::string& name) { return FacilityJoined{FacilityId(name), 10}; }

TEST(FactFeed, ServesWhatIsKept) {
  FactFeed feed;
  for (int i = 1; i <= 5; ++i) happen(feed, i, joined("site-a"));
  const auto events = feed.after(2, 2);
  ASSERT_TRUE(events);
  ASSERT_EQ(events->size(), 2u);
  EXPECT_EQ((*events)[0]->sequence, 3);
  EXPECT_TRUE(feed.after(5, 10)->empty());
}

TEST(FactFeed, SendsTheSlowToTheJournal) {
  FactFeed feed;
  const auto count = static_cast<std::int64_t>(FactFeed::kept_max) + 10;
  for (std::int64_t i = 1; i <= count; ++i) happen(feed, i, joined("site-a"));
  EXPECT_FALSE(feed.after(3, 10));
  EXPECT_TRUE(feed.after(10, 10));
}

TEST(FactFeed, WakesEachWaiterOnce) {
  FactFeed feed;
  int woken = 0;
  feed.wait(0, {}, [&woken](bool news) { woken += news ? 1 : 100; });
  EXPECT_EQ(woken, 0);
  happen(feed, 1, joined("site-a"));
  happen(feed, 2, joined("site-a"));
  EXPECT_EQ(woken, 1);
  feed.wait(1, {}, [&woken](bool news) { woken += news ? 1 : 100; });
  EXPECT_EQ(woken, 2);
}

TEST(FactFeed, TellsAWaiterThatNothingHappened) {
  FactFeed feed;
  const auto now = std::chrono::steady_clock::now();
  int quiet = 0;
  feed.wait(0, now + std::chrono::hours(1), [&quiet](bool news) { quiet += news ? 0 : 10; });
  feed.wait(0, now, [&quiet](bool news) { quiet += news ? 0 : 1; });
  feed.expire(now);
  EXPECT_EQ(quiet, 1);
  EXPECT_EQ(feed.watchers(), 1u);
}

TEST(FactFeed, AFacilitySeesItselfAndTheRound) {
  const FacilityId me("site-a");
  const auto visible = [&me](const Fact& fact) {
    return may_see(make_feed_event(row_of(1, fact), fact), me);
  };
  EXPECT_TRUE(visible(joined("site-a")));
  EXPECT_FALSE(visible(joined("site-b")));
  EXPECT_TRUE(visible(Published{}));
  EXPECT_TRUE(visible(RunFinished{"done"}));
  // It names the updates and weights of everybody.
  EXPECT_FALSE(visible(ReduceStarted{}));
  const Fact fact = joined("site-b");
  EXPECT_TRUE(may_see(make_feed_event(row_of(1, fact), fact), std::nullopt));
}

TEST(FactFeed, TokensAndNoncesStayHere) {
  AttemptStarted started;
  started.facility = FacilityId("site-a");
  started.registration.attempt = AttemptId("1.0");
  started.registration.nonce = "the-nonce";
  started.token = "the-token";
  const Fact fact = started;
  const FeedEvent event = make_feed_event(row_of(9, fact), fact);
  EXPECT_EQ(event.text.find("the-token"), std::string::npos);
  EXPECT_EQ(event.text.find("the-nonce"), std::string::npos);
  EXPECT_NE(event.text.find("1.0"), std::string::npos);
  EXPECT_EQ(event_text(event).rfind("id: 9\nevent: attempt-started\ndata: {", 0), 0u);
}

}  // namespace
}  // namespace fedqueue::http
