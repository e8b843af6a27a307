#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "simulation/report/summary.h"

namespace fedqueue::simulation {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

// Two settings, two seeds; ours reaches the target at 20, published at 40, the baselines at 50 and
// at 80 or never.
class ReportTest : public testing::Test {
 protected:
  ReportTest() {
    auto parsed = parse_experiment(
        "[experiment]\nname = small\nseeds = 2\ntuning_seeds = 1\n"
        "[defaults]\nhorizon = 100\ntarget = 0.8\nevaluation_interval = 5\nfacilities = 2\n"
        "[setting.calm]\nqueue_sigma = 0.4\n"
        "[setting.wild]\nqueue_sigma = 1.5\n"
        "[policy.resident]\nrole = ours\n"
        "[policy.fedqueue-published]\nrole = published\n"
        "[policy.fedavg]\nrole = baseline\n"
        "[policy.fedbuff]\nrole = baseline\n",
        "test.ini");
    EXPECT_TRUE(parsed);
    experiment_ = *parsed;
    for (const CellKey& key : tuning_cells(experiment_)) cells_[key] = cell(key);
    choices_ = choose(experiment_, cells_);
    for (const CellKey& key : reported_cells(experiment_, choices_)) cells_[key] = cell(key);
  }

  static CellResult cell(const CellKey& key) {
    double reached = 20;
    if (key.policy == "fedqueue-published") reached = 40;
    if (key.policy == "fedavg") reached = 50;
    if (key.policy == "fedbuff") reached = key.seed == 1 ? 1000 : 80;
    CellResult result;
    result.key = key;
    for (double at = 0; at <= 100; at += 5)
      result.curve.push_back(
          {at, at >= reached ? 0.9 : 0.1, 1, at * (key.policy == "resident" ? 72 : 36)});
    result.final_accuracy = result.curve.back().accuracy;
    result.node_seconds_used = key.policy == "resident" ? 7200 : 3600;
    result.node_seconds_wasted = 360;
    result.training_seconds = result.node_seconds_used / 2;
    result.updates_counted = 10;
    result.staleness = {{0, 8}, {2, 2}};
    result.queue_waits_s = {1, 2, 3};
    result.spans = {{0, 1, Activity::waiting, 0, 2}, {0, 1, Activity::training, 2, 9}};
    return result;
  }

  const RatioSummary& ratio(const Report& report, const std::string& name) {
    for (const RatioSummary& candidate : report.ratios)
      if (candidate.name == name && candidate.phase == Phase::tuned) return candidate;
    ADD_FAILURE() << "no ratio " << name;
    return report.ratios.front();
  }

  Experiment experiment_;
  std::map<CellKey, CellResult> cells_;
  Choices choices_;
};

TEST_F(ReportTest, RatiosAreOfPairedTimesAgainstPublishedAndTheBestBaseline) {
  const Report report = summarize(experiment_, choices_, cells_);
  const RatioSummary& published = ratio(report, "resident_vs_fedqueue_published");
  EXPECT_NEAR(published.time.estimate, 0.5, 1e-12);
  EXPECT_EQ(published.time.pairs, 4u);
  EXPECT_EQ(published.time.clusters, 2u);
  EXPECT_NEAR(published.node_hours.estimate, 1, 1e-12);  // twice as many nodes, half the time
  EXPECT_NEAR(published.node_hours_horizon.estimate, 2, 1e-12);
  const RatioSummary& best = ratio(report, "resident_vs_best_baseline");
  EXPECT_EQ(best.theirs_by_setting.at("calm"), "fedavg");
  EXPECT_NEAR(best.time.estimate, 0.4, 1e-12);
  EXPECT_NEAR(ratio(report, "fedqueue_published_vs_best_baseline").time.estimate, 0.8, 1e-12);
}

TEST_F(ReportTest, ABaselineThatDoesNotReachTheTargetCountsTheHorizon) {
  const Report report = summarize(experiment_, choices_, cells_);
  const RatioSummary& fedbuff = ratio(report, "resident_vs_fedbuff");
  EXPECT_NEAR(fedbuff.time.estimate, std::sqrt(20.0 / 100 * 20.0 / 80), 1e-12);
  EXPECT_EQ(fedbuff.theirs_unreached, 2) << "one seed in each of two settings";
  EXPECT_EQ(fedbuff.cells_failed, 0);
}

TEST_F(ReportTest, OursNotReachingTheTargetFailsItsCell) {
  for (auto& [key, result] : cells_)
    if (key.policy == "resident" && key.setting == "wild" && key.seed == 2) result.curve.clear();
  const Report report = summarize(experiment_, choices_, cells_);
  const RatioSummary& published = ratio(report, "resident_vs_fedqueue_published");
  EXPECT_EQ(published.cells_failed, 1);
  EXPECT_NEAR(published.by_setting.at("wild"), std::sqrt(0.5 * 100.0 / 40), 1e-12);
}

TEST_F(ReportTest, ACellThatBrokeIsShownAndCountsAsNotReached) {
  for (auto& [key, result] : cells_)
    if (key.policy == "fedavg" && key.seed == 1) result.error = "the loss is no number";
  const Report report = summarize(experiment_, choices_, cells_);
  bool seen = false;
  for (const PolicySummary& policy : report.policies) {
    if (policy.policy != "fedavg" || policy.phase != Phase::tuned) continue;
    seen = true;
    EXPECT_EQ(policy.failed, 1);
    EXPECT_EQ(policy.targets[0].reached, 1);
    EXPECT_NEAR(policy.targets[0].time_s, std::sqrt(100.0 * 50), 1e-9);
  }
  EXPECT_TRUE(seen);
  EXPECT_THAT(report_text(report), HasSubstr("the loss is no number"));
}

TEST_F(ReportTest, AtEqualSettingsTheBestBaselineIsTheBestUntunedOne) {
  // fedbuff is best once tuned, fedavg without.
  experiment_.policies[3].tune = {{"lr_base", {"0.1", "0.2"}}};
  for (const CellKey& key : tuning_cells(experiment_)) {
    cells_[key] = cell(key);
    if (key.choice == "lr_base=0.2")
      for (CurvePoint& point : cells_[key].curve) point.accuracy = point.at_s >= 10 ? 0.9 : 0.1;
  }
  choices_ = choose(experiment_, cells_);
  for (const CellKey& key : reported_cells(experiment_, choices_)) cells_[key] = cell(key);
  const Report report = summarize(experiment_, choices_, cells_);
  EXPECT_EQ(ratio(report, "resident_vs_best_baseline").theirs_by_setting.at("calm"), "fedbuff");
  for (const RatioSummary& candidate : report.ratios) {
    if (candidate.phase == Phase::equal && candidate.name == "resident_vs_best_baseline") {
      EXPECT_EQ(candidate.theirs_by_setting.at("calm"), "fedavg");
    }
  }
}

TEST_F(ReportTest, JsonHoldsTheRatiosUnderTheirNames) {
  const json document = json::parse(report_json(summarize(experiment_, choices_, cells_)));
  const json& ratios = document.at("ratios");
  EXPECT_NEAR(ratios.at("resident_vs_fedqueue_published").at("ratio").get<double>(), 0.5, 1e-12);
  EXPECT_TRUE(ratios.at("resident_vs_best_baseline").contains("low"));
  EXPECT_TRUE(ratios.at("resident_vs_best_baseline").contains("high"));
  EXPECT_TRUE(document.at("ratios_equal").contains("resident_vs_best_baseline"));
  const json& policy = document.at("tuned").at(0);
  EXPECT_EQ(policy.at("policy"), "resident");
  EXPECT_NEAR(policy.at("allocation_share").get<double>(), 0.5, 1e-12);
  EXPECT_EQ(policy.at("staleness").at("2"), 4) << "two updates in each of two seeds";
  EXPECT_EQ(policy.at("queue_waits").at("median_s"), 2);
}

TEST_F(ReportTest, CsvHasOneLineForEveryCell) {
  const std::string csv = cells_csv(experiment_, cells_);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), static_cast<long>(cells_.size()) + 1);
  EXPECT_THAT(csv, HasSubstr("tuned,calm,fedbuff,1,\"-\",0.8,,,0.1,"))
      << "a target that was not reached has no time";
}

TEST_F(ReportTest, ThePageNeedsNothingElse) {
  const std::string html = report_html(summarize(experiment_, choices_, cells_));
  EXPECT_THAT(html, HasSubstr("<svg"));
  EXPECT_THAT(html, HasSubstr("facility-2"));
  EXPECT_THAT(html, HasSubstr("resident_vs_best_baseline"));
  EXPECT_THAT(html, HasSubstr("training, job 1, 2.0–9.0 s"));
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_EQ(html.substr(html.size() - 15), "</body></html>\n");
}

}  // namespace
}  // namespace fedqueue::simulation
