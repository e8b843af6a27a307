#include "aggregation/planning/work_budget.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace fedqueue {
namespace {

BudgetInput input(double t_sync_s, double safety_s, std::optional<double> wait_s) {
  BudgetInput result;
  result.t_sync_s = t_sync_s;
  result.safety_s = safety_s;
  result.predicted_wait_s = wait_s;
  return result;
}

TEST(WorkBudget, FollowsTheWorkedExample) {
  struct Row {
    double wait_s, step_seconds, budget_s;
    std::int64_t steps;
    double learning_rate, deadline_s;
  };
  const Row rows[] = {{450, 0.5, 3090, 6180, 0.005145631067961165, 1170},
                      {1050, 0.25, 2490, 9960, 0.0031927710843373497, 1770},
                      {360, 1.0, 3180, 3180, 0.01, 1080}};
  for (const Row& row : rows) {
    const double budget = work_budget_s(BudgetRule::published, input(3600, 60, row.wait_s));
    EXPECT_DOUBLE_EQ(budget, row.budget_s);
    EXPECT_EQ(local_steps(budget, row.step_seconds, 20), row.steps);
    EXPECT_DOUBLE_EQ(scaled_learning_rate(0.01, 3180, row.steps), row.learning_rate);
    EXPECT_DOUBLE_EQ(admission_deadline_s(row.wait_s, 0.2, 3600, 0), row.deadline_s);
  }
}

TEST(WorkBudget, HasAFloorWhenTheQueueEatsTheRound) {
  const double budget = work_budget_s(BudgetRule::published, input(10, 2, 9.9));
  EXPECT_DOUBLE_EQ(budget, 0.5);
  EXPECT_EQ(local_steps(budget, 0.01, 10), 50);
  EXPECT_EQ(local_steps(budget, 0.25, 20), 20);  // the warm-up beats the budget
  EXPECT_DOUBLE_EQ(work_budget_s(BudgetRule::corrected, input(10, 2, 1e9)), 0.5);
}

TEST(WorkBudget, CorrectedSubtractsOverheadAndKeepsToTheTimeLimit) {
  BudgetInput in = input(3600, 60, 450);
  in.overhead_s = 90;
  EXPECT_DOUBLE_EQ(work_budget_s(BudgetRule::corrected, in), 3000);
  EXPECT_DOUBLE_EQ(work_budget_s(BudgetRule::published, in), 3090);
  in.time_limit_s = 1800;
  in.time_limit_margin_s = 120;
  EXPECT_DOUBLE_EQ(work_budget_s(BudgetRule::corrected, in), 1680);
  EXPECT_DOUBLE_EQ(work_budget_s(BudgetRule::published, in), 3090);
}

TEST(WorkBudget, SurvivesStepTimesThatMakeNoSense) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::optional<double> step :
       {std::optional<double>(), {0.0}, {-1.0}, {nan}, {infinity}, {1e300}})
    EXPECT_EQ(local_steps(3000, step, 20), 20);
  EXPECT_EQ(local_steps(3000, 1e-300, 20), local_steps_max);
  EXPECT_EQ(local_steps(nan, 0.5, 20), 20);
  EXPECT_EQ(local_steps(3000, 0.5, -4), 6000);
  EXPECT_EQ(local_steps(0.5, 1.0, 0), 1);
  EXPECT_DOUBLE_EQ(work_budget_s(BudgetRule::corrected, input(100, 10, nan)), 90);
  EXPECT_DOUBLE_EQ(work_budget_s(BudgetRule::corrected, input(100, 10, -50)), 90);
}

TEST(WorkBudget, StepsWithinTheLimitAreKnownOnlyWithBothFigures) {
  EXPECT_EQ(steps_within_limit(600, 60, 2.0), 270);
  EXPECT_EQ(steps_within_limit(30, 60, 2.0), 1);
  EXPECT_EQ(steps_within_limit(std::nullopt, 60, 2.0), std::nullopt);
  EXPECT_EQ(steps_within_limit(600, 60, std::nullopt), std::nullopt);
  EXPECT_EQ(steps_within_limit(600, 60, 0.0), std::nullopt);
}

TEST(WorkBudget, LearningRateIsNeverAboveTheBase) {
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.01, std::nullopt, 100), 0.01);
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.01, 500, 100), 0.01);
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.01, 0, 100), 0.01);
  EXPECT_DOUBLE_EQ(scaled_learning_rate(0.01, 50, 100), 0.005);
  EXPECT_EQ(steps_min({}), std::nullopt);
  EXPECT_EQ(steps_min(std::vector<std::int64_t>{30, 20, 40}), 20);
}

TEST(WorkBudget, UnknownWaitHasTheGivenDeadline) {
  EXPECT_DOUBLE_EQ(admission_deadline_s(std::nullopt, 0.2, 100, 115), 115);
}

TEST(StepTime, StartsAtTheFirstObservationAndIgnoresNonsense) {
  StepTime time(0.5);
  EXPECT_EQ(time.seconds(), std::nullopt);
  for (const double broken : {0.0, -1.0, std::nan("")}) time.observe(broken);
  EXPECT_EQ(time.seconds(), std::nullopt);
  time.observe(0.5);
  EXPECT_EQ(time.seconds(), 0.5);
  time.observe(1.5);
  EXPECT_EQ(time.seconds(), 1.0);
  time.observe(0);
  EXPECT_EQ(time.seconds(), 1.0);
}

}  // namespace
}  // namespace fedqueue
