#include "fedclient/collective/sum_queue.h"

#include <gmock/gmock.h>

#include <array>
#include <future>
#include <vector>

namespace fedqueue {
namespace {

TEST(SumQueue, SumsInTheOrderOfTheirBeginningWhileTheCallerGoesOn) {
  std::promise<void> caller_is_done;
  std::vector<std::size_t> order;
  SumQueue queue([&, go = caller_is_done.get_future().share()](float* data, std::size_t count,
                                                               const std::atomic<bool>&) -> Status {
    go.wait();
    order.push_back(count);
    for (std::size_t i = 0; i < count; ++i) data[i] *= 2;
    return {};
  });
  std::array<float, 6> values = {1, 2, 3, 4, 5, 6};
  queue.begin(values.data() + 3, 3);
  queue.begin(values.data(), 1);
  queue.begin(values.data() + 1, 2);
  caller_is_done.set_value();
  ASSERT_TRUE(queue.finish());
  EXPECT_THAT(order, ::testing::ElementsAre(3, 1, 2));
  EXPECT_THAT(values, ::testing::ElementsAre(2, 4, 6, 8, 10, 12));
}

TEST(SumQueue, SaysWhenTheCallerDoesNothingButWait) {
  SumQueue queue([](float*, std::size_t, const std::atomic<bool>& awaited) -> Status {
    while (!awaited) std::this_thread::yield();
    return {};
  });
  float value = 0;
  for (int step = 0; step < 2; ++step) {
    queue.begin(&value, 1);
    ASSERT_TRUE(queue.finish());
  }
  const SumSeconds seconds = queue.seconds();
  EXPECT_GT(seconds.exposed, 0);
  EXPECT_GT(seconds.under_way, 0);
}

TEST(SumQueue, AFailureIsTheEndOfAllSums) {
  int attempts = 0;
  SumQueue queue([&](float*, std::size_t, const std::atomic<bool>&) -> Status {
    ++attempts;
    return Error{Code::rank_lost, "sum: rank 1 is gone", ""};
  });
  float value = 0;
  queue.begin(&value, 1);
  ASSERT_FALSE(queue.finish());
  queue.begin(&value, 1);
  const Status second = queue.finish();
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::rank_lost);
  EXPECT_EQ(attempts, 1);
}

TEST(SumQueue, NothingBegunIsFinished) {
  SumQueue queue([](float*, std::size_t, const std::atomic<bool>&) -> Status { return {}; });
  EXPECT_TRUE(queue.finish());
  EXPECT_EQ(queue.seconds().under_way, 0);
}

}  // namespace
}  // namespace fedqueue
