#include "aggregation/queue/wait_predictor.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace fedqueue {
namespace {

WaitPredictorConfig ewma(std::optional<double> q_init_s, bool from_first = false) {
  return {WaitPredictorKind::ewma, 0.5, q_init_s, from_first};
}

TEST(WaitPredictor, PublishedAveragesTheFirstWaitWithThePrior) {
  for (const auto& [wait, expected] : {std::pair{300.0, 450.0}, {1500.0, 1050.0}, {120.0, 360.0}}) {
    WaitPredictor predictor(ewma(600));
    EXPECT_EQ(predictor.predicted_s(), 600);
    predictor.observe(wait);
    EXPECT_EQ(predictor.predicted_s(), expected);
  }
}

TEST(WaitPredictor, SecondWaitsFollowTheWorkedExample) {
  const double waits[3][3] = {{300, 500, 475}, {1500, 2000, 1525}, {120, 100, 230}};
  for (const auto& row : waits) {
    WaitPredictor predictor(ewma(600));
    predictor.observe(row[0]);
    predictor.observe(row[1]);
    EXPECT_EQ(predictor.predicted_s(), row[2]);
    EXPECT_EQ(predictor.observations(), 2);
  }
}

TEST(WaitPredictor, CorrectedForgetsThePriorAtTheFirstWait) {
  WaitPredictor predictor(ewma(2, true));
  predictor.observe(7200);
  EXPECT_EQ(predictor.predicted_s(), 7200);
  predictor.observe(3600);
  EXPECT_EQ(predictor.predicted_s(), 5400);
}

TEST(WaitPredictor, IsUnknownWithoutPriorUntilAWaitIsSeen) {
  WaitPredictor predictor(ewma(std::nullopt));
  EXPECT_EQ(predictor.predicted_s(), std::nullopt);
  predictor.inflate(2);
  EXPECT_EQ(predictor.predicted_s(), std::nullopt);
  predictor.observe(40);
  EXPECT_EQ(predictor.predicted_s(), 40);
}

TEST(WaitPredictor, LogEwmaAveragesLogarithms) {
  WaitPredictor predictor({WaitPredictorKind::log_ewma, 0.5, 3, false});
  EXPECT_NEAR(*predictor.predicted_s(), 3, 1e-12);
  predictor.observe(15);  // ln 4 and ln 16 meet at ln 8
  EXPECT_NEAR(*predictor.predicted_s(), 7, 1e-9);
  predictor.observe(127);  // ln 8 and ln 128 meet at ln 32
  EXPECT_NEAR(*predictor.predicted_s(), 31, 1e-9);
}

TEST(WaitPredictor, OneSpikeMovesLogEwmaFarLess) {
  WaitPredictor plain({WaitPredictorKind::ewma, 0.5, std::nullopt, true});
  WaitPredictor robust({WaitPredictorKind::log_ewma, 0.5, std::nullopt, true});
  for (const double wait : {60.0, 60.0, 86400.0}) {
    plain.observe(wait);
    robust.observe(wait);
  }
  EXPECT_GT(*plain.predicted_s(), 43000);
  EXPECT_LT(*robust.predicted_s(), 2400);
  EXPECT_GT(*robust.predicted_s(), 60);
}

TEST(WaitPredictor, BrokenRecordsDoNotSpoilThePrediction) {
  for (const auto kind : {WaitPredictorKind::ewma, WaitPredictorKind::log_ewma}) {
    WaitPredictor predictor({kind, 0.5, 100, false});
    predictor.observe(std::nan(""));
    predictor.observe(std::numeric_limits<double>::infinity());
    EXPECT_EQ(predictor.observations(), 0);
    EXPECT_NEAR(*predictor.predicted_s(), 100, 1e-9);
    predictor.observe(-500);
    EXPECT_EQ(predictor.observations(), 1);
    EXPECT_NEAR(*predictor.predicted_s(),
                kind == WaitPredictorKind::ewma ? 50 : std::sqrt(101.0) - 1, 1e-9);
    predictor.observe(1e308);
    predictor.inflate(1e308);
    predictor.inflate(1e308);
    EXPECT_TRUE(std::isfinite(*predictor.predicted_s()));
  }
}

TEST(WaitPredictor, FailedJobsInflateThePrediction) {
  for (const auto kind : {WaitPredictorKind::ewma, WaitPredictorKind::log_ewma}) {
    WaitPredictor predictor({kind, 0.5, 200, false});
    predictor.inflate(1.5);
    EXPECT_NEAR(*predictor.predicted_s(), 300, 1e-9);
    predictor.inflate(0.1);  // a failure never makes a queue look shorter
    predictor.inflate(std::nan(""));
    EXPECT_NEAR(*predictor.predicted_s(), 300, 1e-9);
    EXPECT_EQ(predictor.observations(), 0);
  }
}

TEST(WaitPredictor, GoesOnFromItsStateAfterARestart) {
  const WaitPredictorConfig config{WaitPredictorKind::log_ewma, 0.3, 10, true};
  WaitPredictor before(config);
  before.observe(500);
  WaitPredictor after(config, before.state());
  before.observe(50);
  after.observe(50);
  EXPECT_EQ(after.predicted_s(), before.predicted_s());
  EXPECT_EQ(after.observations(), 2);
}

TEST(WaitPredictor, RefusesSettingsThatMakeNoSense) {
  EXPECT_FALSE((WaitPredictorConfig{WaitPredictorKind::ewma, 0, {}, false}.validate()));
  EXPECT_FALSE((WaitPredictorConfig{WaitPredictorKind::ewma, 1.1, {}, false}.validate()));
  EXPECT_FALSE((WaitPredictorConfig{WaitPredictorKind::ewma, 0.5, -1, false}.validate()));
  EXPECT_TRUE((WaitPredictorConfig{WaitPredictorKind::ewma, 1, 0, false}.validate()));
  EXPECT_FALSE(parse_wait_predictor_kind("median"));
  EXPECT_EQ(*parse_wait_predictor_kind("log_ewma"), WaitPredictorKind::log_ewma);
}

}  // namespace
}  // namespace fedqueue
