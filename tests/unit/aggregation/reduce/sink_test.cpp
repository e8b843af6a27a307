// Items come in any order and leave in theirs; a failure stops the work and is the first one.
#include "aggregation/reduce/sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/base/prng.h"

namespace fedqueue {
namespace {

using testing::ElementsAre;

TEST(OrderedSink, DigestsInOrderWhateverTheOrderOfArrival) {
  std::vector<std::size_t> order;
  OrderedSink sink(4, 4, 8, [&](std::size_t i, std::span<const std::byte> bytes) {
    order.push_back(i);
    EXPECT_EQ(bytes.size(), i + 1);
  });
  for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(sink.claim(), i);
  EXPECT_FALSE(sink.claim());
  sink.deliver(2, 3, 0.25);
  EXPECT_THAT(order, ElementsAre());
  sink.deliver(0, 1, 1);
  EXPECT_THAT(order, ElementsAre(0));
  sink.deliver(1, 2, 0.5);
  EXPECT_THAT(order, ElementsAre(0, 1, 2));
  sink.deliver(3, 4, 2);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(sink.squares(), 3.75);
  EXPECT_FALSE(sink.error());
}

TEST(OrderedSink, KeepsTheErrorOfTheFirstItemThatFailed) {
  OrderedSink sink(9, 4, 8, [](std::size_t, std::span<const std::byte>) {});
  for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(sink.claim(), i);
  sink.fail(2, Error{Code::storage, "third", ""});
  EXPECT_FALSE(sink.claim()) << "nothing new is started";
  sink.fail(1, Error{Code::storage, "second", ""});
  sink.deliver(0, 8, 0);
  ASSERT_TRUE(sink.error());
  EXPECT_EQ(sink.error()->message, "second");
}

TEST(OrderedSink, ManyThreadsThroughAFewSlots) {
  constexpr std::size_t items = 2000;
  std::vector<std::size_t> order;
  std::size_t wrong = 0;
  OrderedSink sink(items, 3, sizeof(std::size_t),
                   [&](std::size_t i, std::span<const std::byte> bytes) {
                     order.push_back(i);
                     std::size_t content = 0;
                     std::memcpy(&content, bytes.data(), bytes.size());
                     if (content != i * i) ++wrong;
                   });
  const auto work = [&] {
    while (const auto i = sink.claim()) {
      const std::size_t content = *i * *i;
      std::memcpy(sink.slot(*i).data(), &content, sizeof content);
      sink.deliver(*i, sizeof content, 1);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) threads.emplace_back(work);
  }
  EXPECT_EQ(order.size(), items);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(sink.squares(), items);
}

}  // namespace
}  // namespace fedqueue
