#include "simulation/queues/swf.h"

#include <gtest/gtest.h>

namespace fedqueue::simulation {
namespace {

// job submit wait run procs cpu mem procs_req time_req mem_req status user group exe queue …
const char* const kLog =
    "; Computer: a test\n"
    "; MaxNodes: 64\n"
    "; MaxProcs: 128\n"
    "\n"
    "  2   40  -1   500    8  -1 -1   8  900 -1 1 7 1 -1 2 1 -1 -1\n"
    "1 8 30 100.5 3 552.21 -1 4 -1 -1 1 5 1 -1 2 1 -1 -1\r\n"
    "3 50 10 0 -1 -1 -1 16 60 -1 5 5 1 -1 2 1 -1 -1\n";

TEST(Swf, RowsAreReadInTheOrderOfSubmissionWithUnknownsLeftOut) {
  const auto log = parse_swf(kLog, "test.swf");
  ASSERT_TRUE(log) << log.error().message;
  EXPECT_EQ(log->processors_max, 128);
  ASSERT_EQ(log->jobs.size(), 3u);
  EXPECT_EQ(log->jobs[0].id, 1);
  EXPECT_EQ(log->jobs[0].wait_s, 30);
  EXPECT_EQ(log->jobs[0].run_s, 100.5);
  EXPECT_EQ(log->jobs[0].processors, 3);
  EXPECT_EQ(log->jobs[0].requested_s, std::nullopt);
  EXPECT_EQ(log->jobs[1].id, 2);
  EXPECT_EQ(log->jobs[1].wait_s, std::nullopt);
  EXPECT_EQ(log->jobs[1].requested_s, 900);
  EXPECT_EQ(log->jobs[1].user, 7);
  EXPECT_EQ(log->jobs[2].processors, 16) << "requested, where the allocation is unknown";
}

TEST(Swf, RowsWithoutARunTimeAreKeptButNotUsable) {
  const auto log = parse_swf(kLog, "test.swf");
  ASSERT_TRUE(log);
  EXPECT_EQ(usable_jobs(*log).size(), 2u);
}

TEST(Swf, ABrokenRowIsNamedByItsLine) {
  const auto word = parse_swf("; c\n1 8 30 hundred 3 -1 -1 4 -1 -1 1 5 1 -1 2 1 -1 -1\n", "a.swf");
  ASSERT_FALSE(word);
  EXPECT_EQ(word.error().message, "read a.swf line 2: field 4 is 'hundred', expected a number");
  const auto cut = parse_swf("1 8 30 100\n", "b.swf");
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().message, "read b.swf line 1: expected 18 numbers, found 4 words");
  EXPECT_EQ(cut.error().code, Code::data);
}

TEST(Swf, ALogWithoutJobsIsAnError) {
  EXPECT_FALSE(parse_swf("; nothing\n", "c.swf"));
  EXPECT_FALSE(parse_swf("", "c.swf"));
}

TEST(Swf, ClassesAreQueuesAndSizesToTheNextPowerOfTwo) {
  SwfJob job;
  job.queue = 3;
  const auto exponent = [&](std::int64_t processors) {
    job.processors = processors;
    return class_of(job).size_exponent;
  };
  EXPECT_EQ(exponent(0), 0);
  EXPECT_EQ(exponent(1), 0);
  EXPECT_EQ(exponent(2), 1);
  EXPECT_EQ(exponent(3), 2);
  EXPECT_EQ(exponent(4), 2);
  EXPECT_EQ(exponent(5), 3);
  EXPECT_EQ(class_of(job).queue, 3);
}

}  // namespace
}  // namespace fedqueue::simulation
