// Facts in the journal: what is written reads back, and old journals go on.
#include <gtest/gtest.h>

#include "fedserver/engine/events.h"

namespace fedqueue {
namespace {

template <typename T>
T decoded(const char* kind, std::string_view text) {
  const Result<Fact> fact = decode_fact(kind, text);
  if (!fact) {
    ADD_FAILURE() << fact.error().message;
    return T{};
  }
  return std::get<T>(*fact);
}

TEST(FactsTest, AReductionKeepsItsServerStepAndStateThroughTheJournal) {
  ReduceStarted fact;
  fact.keep = 0.25;
  fact.control_weight = 0.5;
  fact.step.optimizer = ServerOptimizer::yogi;
  fact.step.learning_rate = 0.1;
  fact.step.delay = 3;
  fact.state = ServerState{7, "state-0007.safetensors", "sha", 42};
  const auto copy = decoded<ReduceStarted>("reduce-started", encode_fact(Fact(fact)));
  EXPECT_EQ(copy.step, fact.step);
  EXPECT_EQ(copy.keep, 0.25);
  EXPECT_EQ(copy.control_weight, 0.5);
  ASSERT_TRUE(copy.state);
  EXPECT_EQ(copy.state->file, "state-0007.safetensors");
  EXPECT_EQ(copy.state->bytes, 42u);
}

TEST(FactsTest, AReductionOfAnOldJournalAddsDeltasAsItDid) {
  const auto fact = decoded<ReduceStarted>(
      "reduce-started", R"({"input_version":3,"updates":[],"kept_late":[],"rebuild_models":false,)"
                        R"("unweighted_buffers":false,"cause":"timer","participation":{}})");
  EXPECT_EQ(fact.input_version, 3);
  EXPECT_EQ(fact.step, ServerStep{});
  EXPECT_EQ(fact.keep, 0);
  EXPECT_EQ(fact.control_weight, 0);
  EXPECT_FALSE(fact.state);
}

TEST(FactsTest, APublishedVersionOfAnOldJournalHasNoServerState) {
  const auto fact = decoded<Published>(
      "published",
      R"({"model":{"version":1,"file":"round-0001","sha256":"x","bytes":9},"step_norm":0.5})");
  EXPECT_EQ(fact.model.version, 1);
  EXPECT_FALSE(fact.state);
}

TEST(FactsTest, AnOptimiserOfANewerServerIsNamedAndNotGuessed) {
  const Result<Fact> fact = decode_fact("reduce-started", R"({"step":{"optimizer":"shampoo"}})");
  ASSERT_FALSE(fact);
  EXPECT_EQ(fact.error().code, Code::journal);
  EXPECT_NE(fact.error().message.find("shampoo"), std::string::npos);
}

}  // namespace
}  // namespace fedqueue
