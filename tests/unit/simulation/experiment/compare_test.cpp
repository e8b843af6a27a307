#include "simulation/experiment/compare.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <set>

namespace fedqueue::simulation {
namespace {

namespace fs = std::filesystem;

class Comparison : public testing::Test {
 protected:
  Comparison() {
    directory_ =
        fs::temp_directory_path() / ("fedsim-compare-" + std::to_string(::getpid()) + "-" +
                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    auto parsed = parse_experiment(
        "[experiment]\nseeds = 2\ntuning_seeds = 2\ntuning_budget = 3\n"
        "[setting.one]\nhorizon = 100\ntarget = 0.8\n"
        "[policy.slow]\nrole = baseline\ntune.lr_base = 1, 2, 3, 4\n"
        "[policy.quick]\nrole = baseline\ntune.lr_base = 1, 2, 3, 4\n"
        "[policy.mine]\nrole = ours\n",
        "test.ini");
    EXPECT_TRUE(parsed);
    experiment_ = *parsed;
    hooks_.pool.compute = [](const CellKey& key) { return play(key); };
  }
  ~Comparison() override { fs::remove_all(directory_); }

  // Reaches the target at 60 (slow), 40 (quick) or 20 (mine), 5 earlier with lr_base=2.
  static CellResult play(const CellKey& key) {
    CellResult result;
    result.key = key;
    double reached = key.policy == "slow" ? 60 : key.policy == "quick" ? 40 : 20;
    if (key.choice == "lr_base=2") reached -= 5;
    for (double at = 0; at <= 100; at += 5)
      result.curve.push_back({at, at >= reached ? 0.9 : 0.1, 1});
    result.final_accuracy = 0.9;
    return result;
  }

  [[nodiscard]] fs::path file() const { return directory_ / "results.jsonl"; }
  [[nodiscard]] std::unique_ptr<ResultsFile> open() const {
    auto results = ResultsFile::open(file(), "experiment 1", false);
    if (results) return std::make_unique<ResultsFile>(std::move(*results));
    ADD_FAILURE() << results.error().message;
    return nullptr;
  }

  fs::path directory_;
  Experiment experiment_;
  ComparisonHooks hooks_;
};

TEST_F(Comparison, EveryPolicyIsTunedAndThenReportedOnOtherSeeds) {
  const auto results = open();
  const auto choices = run_comparison(experiment_, 2, *results, hooks_);
  ASSERT_TRUE(choices) << choices.error().message;
  std::set<std::uint64_t> tuning;
  std::set<std::uint64_t> reported;
  std::map<Phase, int> count;
  for (const auto& [key, cell] : results->cells()) {
    ++count[key.phase];
    (key.phase == Phase::tuning ? tuning : reported).insert(key.seed);
  }
  // Three choices for each of two policies and one for the third, on two seeds.
  EXPECT_EQ(count[Phase::tuning], 14);
  EXPECT_EQ(count[Phase::tuned], 6);
  EXPECT_EQ(count[Phase::equal], 6);
  for (const auto seed : tuning) EXPECT_EQ(reported.count(seed), 0u);
  EXPECT_EQ(best_of(Role::baseline, "one", experiment_, *choices), "quick");
  EXPECT_EQ(best_of(Role::equal, "one", experiment_, *choices), "");
}

TEST_F(Comparison, TheBetterChoiceIsTaken) {
  std::map<CellKey, CellResult> cells;
  for (const CellKey& key : tuning_cells(experiment_)) cells[key] = play(key);
  const Choices choices = choose(experiment_, cells);
  const auto tried = choices_of(*experiment_.policy("slow"), experiment_.tuning_budget);
  const bool two_was_tried = std::count(tried.begin(), tried.end(), OptionList{{"lr_base", "2"}});
  EXPECT_EQ(to_text(choices.at({"one", "slow"}).options),
            two_was_tried ? "lr_base=2" : to_text(tried[0]));
}

TEST_F(Comparison, AChoiceThatNeverReachesTheTargetIsJudgedByItsAccuracy) {
  const Setting& setting = experiment_.settings[0];
  CellResult reached = play({Phase::tuning, "one", "slow", 1, "-"});
  EXPECT_NEAR(tuning_score(reached, setting), std::log(60.0), 1e-12);
  CellResult nearly;
  nearly.final_accuracy = 0.79;
  CellResult far;
  far.final_accuracy = 0.5;
  EXPECT_GT(tuning_score(nearly, setting), tuning_score(reached, setting));
  EXPECT_GT(tuning_score(far, setting), tuning_score(nearly, setting));
  CellResult failed;
  failed.error = "it broke";
  EXPECT_GT(tuning_score(failed, setting), tuning_score(far, setting));
}

TEST_F(Comparison, AKilledComparisonGoesOnWhereItWas) {
  int asked = 0;
  ComparisonHooks stopping = hooks_;
  stopping.pool.interrupted = [&] { return ++asked > 4; };
  {
    const auto results = open();
    const auto stopped = run_comparison(experiment_, 1, *results, stopping);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, Code::try_again);
  }
  std::ofstream(file(), std::ios::app) << "{\"key\": {\"phase\": \"tun";  // cut by a kill
  std::size_t kept = 0;
  {
    const auto results = open();
    kept = results->cells().size();
    EXPECT_GT(kept, 0u);
    std::size_t computed = 0;
    ComparisonHooks counting = hooks_;
    counting.progress = [&](const Progress& progress) { computed = progress.done; };
    ASSERT_TRUE(run_comparison(experiment_, 2, *results, counting));
    EXPECT_EQ(results->cells().size(), 26u);
    EXPECT_LE(computed + kept, 26u) << "nothing is computed twice";
  }
  EXPECT_EQ(open()->cells().size(), 26u);
}

TEST_F(Comparison, ResultsOfAnotherExperimentAreNotMixedIn) {
  { const auto results = open(); }
  const auto other = ResultsFile::open(file(), "experiment 2", false);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::conflict);
  EXPECT_TRUE(ResultsFile::open(file(), "experiment 2", true));
}

TEST_F(Comparison, TwoProcessesDoNotShareAFile) {
  const auto results = open();
  const auto second = ResultsFile::open(file(), "experiment 1", false);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::already_running);
}

TEST_F(Comparison, ACellThatCrashesIsReportedAndDoesNotStopTheOthers) {
  hooks_.pool.compute = [](const CellKey& key) -> CellResult {
    if (key.policy == "slow") ::raise(SIGKILL);
    if (key.policy == "quick") throw std::runtime_error("no luck");
    return play(key);
  };
  std::map<std::string, CellResult> last;
  PoolHooks pool = hooks_.pool;
  pool.finished = [&](const CellResult& cell) -> Status {
    last[cell.key.policy] = cell;
    return {};
  };
  ASSERT_TRUE(run_cells(tuning_cells(experiment_), 2, pool));
  EXPECT_NE(last["slow"].error.find("signal 9"), std::string::npos);
  EXPECT_NE(last["quick"].error.find("no luck"), std::string::npos);
  EXPECT_EQ(last["mine"].error, "");
}

TEST(CellResult, IsOneLineThatReadsBack) {
  CellResult result;
  result.key = {Phase::equal, "calm", "fedavg", 12, "lr_base=0.1"};
  result.curve = {{0, 0.1, 2.3}, {2, 0.25, 1.5}};
  result.final_accuracy = 0.25;
  result.staleness = {{0, 5}, {3, 1}};
  result.queue_waits_s = {0.5, 1.25};
  result.spans = {{1, 7, Activity::training, 2.5, 4}};
  result.updates_counted = 6;
  const std::string line = encode(result);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto back = decode_cell(line);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->key, result.key);
  EXPECT_EQ(back->curve[1].accuracy, 0.25);
  EXPECT_EQ(back->staleness, result.staleness);
  EXPECT_EQ(back->spans[0].activity, Activity::training);
  EXPECT_EQ(encode(*back), line);
  EXPECT_FALSE(decode_cell("{}"));
  EXPECT_FALSE(decode_cell("{"));
}

}  // namespace
}  // namespace fedqueue::simulation
