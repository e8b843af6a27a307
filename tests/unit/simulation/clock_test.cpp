#include "simulation/clock/clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "simulation/clock/streams.h"

namespace fedqueue::simulation {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

TEST(Clock, EventsHappenInOrderOfTimeAndThenOfScheduling) {
  Clock clock;
  std::vector<std::string> happened;
  const auto note = [&](const char* what) {
    return [&happened, what] { happened.push_back(what); };
  };
  clock.after(2s, "late", note("late"));
  clock.after(1s, "first", note("first"));
  clock.after(1s, "second", note("second"));
  clock.after(1s, "nested", [&] { clock.schedule(Instant(0s), "past means now", note("nested")); });
  clock.run_until(Instant(10s));
  EXPECT_THAT(happened, ElementsAre("first", "second", "nested", "late"));
  EXPECT_EQ(clock.now(), Instant(10s));
  EXPECT_TRUE(clock.empty());
}

TEST(Clock, WhatIsCancelledNeverHappens) {
  Clock clock;
  int count = 0;
  const Clock::Ticket ticket = clock.after(1s, "cancelled", [&] { ++count; });
  clock.after(2s, "kept", [&] { count += 10; });
  clock.cancel(ticket);
  clock.cancel(ticket);
  clock.cancel(0);
  clock.run_until(Instant(5s));
  EXPECT_EQ(count, 10);
  EXPECT_EQ(clock.events(), 1u);
}

TEST(Clock, RunsUntilAConditionHoldsAndNotBeyondTheEnd) {
  Clock clock;
  int count = 0;
  std::function<void()> beat = [&] {
    ++count;
    clock.after(1s, "beat", beat);
  };
  clock.after(1s, "beat", beat);
  EXPECT_TRUE(clock.run_while_not([&] { return count == 3; }, Instant(100s)));
  EXPECT_EQ(clock.now(), Instant(3s));
  EXPECT_FALSE(clock.run_while_not([&] { return count == 1000; }, Instant(10s)));
  EXPECT_EQ(count, 10);
}

TEST(Trace, EqualStoriesHaveEqualHashesAndOthersDoNot) {
  const auto story = [](int beats, const std::string& word) {
    Clock clock;
    for (int i = 0; i < beats; ++i) {
      clock.after(std::chrono::seconds(i), "beat", [&] { clock.tell("site-a", word); });
    }
    clock.run_until(Instant(100s));
    return clock.trace().hex();
  };
  EXPECT_EQ(story(3, "hello"), story(3, "hello"));
  EXPECT_NE(story(3, "hello"), story(4, "hello"));
  EXPECT_NE(story(3, "hello"), story(3, "hellp"));
}

TEST(Trace, ListeningDoesNotChangeTheHash) {
  Trace silent;
  Trace heard;
  std::vector<std::string> lines;
  heard.listen([&](Instant, const std::string& who, const std::string& text) {
    lines.push_back(who + ": " + text);
  });
  for (Trace* trace : {&silent, &heard}) trace->tell(Instant(1s), "server", "round 1 closed");
  EXPECT_EQ(silent.hash(), heard.hash());
  EXPECT_THAT(lines, ElementsAre("server: round 1 closed"));
}

TEST(Streams, EachPurposeHasItsOwnStreamAndKeepsIt) {
  Prng first = stream(7, "network");
  Prng again = stream(7, "network");
  EXPECT_EQ(first.next(), again.next());
  EXPECT_NE(stream(7, "network").next(), stream(7, "queue").next());
  EXPECT_NE(stream(7, "queue", 1).next(), stream(7, "queue", 2).next());
  EXPECT_NE(stream(7, "queue").next(), stream(8, "queue").next());
}

TEST(Streams, ADistributionHasItsMeanOrMedian) {
  Prng random = stream(1, "distributions");
  double sum = 0;
  int below = 0;
  constexpr int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    sum += exponential(random, 3);
    below += log_normal(random, 5, 1.5) < 5 ? 1 : 0;
  }
  EXPECT_NEAR(sum / draws, 3, 0.1);
  EXPECT_NEAR(static_cast<double>(below) / draws, 0.5, 0.02);
  EXPECT_FALSE(chance(random, 0));
  EXPECT_TRUE(chance(random, 1));
}

}  // namespace
}  // namespace fedqueue::simulation
