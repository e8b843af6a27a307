// The program as a user runs it, on a small dataset that is easy to learn.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "fedclient/data/dataset.h"

namespace fedqueue {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kExperiment =
    "[experiment]\nname = tiny\nseeds = 2\ntuning_seeds = 1\ntuning_budget = 2\n"
    "[defaults]\nfacilities = 2\nhorizon = 60\nevaluation_interval = 2\nbatch = 8\n"
    "evaluation_samples = 80\ntarget = 0.9\nstep_seconds = 0.2\n"
    "[setting.calm]\nqueue_mean = 1\n"
    "[policy.resident]\nrole = ours\npolicy = resident\nlr_base = 0.1\n"
    "[policy.fedqueue-published]\nrole = published\npolicy = fedqueue\nsemantics = published\n"
    "t_sync = 10\ntheta = 2\nlr_base = 0.1\n"
    "[policy.fedavg]\nrole = baseline\npolicy = fedavg\ntune.lr_base = 0.1, 0.02\n";

// Four classes of 8×8 images: a bright quarter each.
Dataset quarters(std::int64_t samples) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto label = static_cast<std::int32_t>(i % 4);
    labels.push_back(label);
    for (int row = 0; row < 8; ++row) {
      for (int column = 0; column < 8; ++column) {
        const bool bright = (row / 4) * 2 + column / 4 == label;
        const auto noise = static_cast<std::uint8_t>((i * 37 + row * 11 + column * 5) % 60);
        pixels.push_back(static_cast<std::uint8_t>((bright ? 180 : 20) + noise));
      }
    }
  }
  return Dataset::of_bytes({{1, 8, 8}}, std::move(pixels), std::move(labels));
}

class Fedsim : public testing::Test {
 protected:
  Fedsim() {
    folder_ =
        fs::temp_directory_path() / ("fedsim-test-" + std::to_string(::getpid()) + "-" +
                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    EXPECT_TRUE(write_dataset(folder_ / "data", Split::train, quarters(400)));
    EXPECT_TRUE(write_dataset(folder_ / "data", Split::held_out, quarters(80)));
    std::ofstream(folder_ / "tiny.ini") << kExperiment;
  }
  ~Fedsim() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string line(const std::string& arguments) const {
    return std::string("exec ") + FEDSIM_PROGRAM + " " + arguments + " --output " +
           (folder_ / "out").string() + " --dataset " + (folder_ / "data").string() + " > " +
           (folder_ / "stdout").string() + " 2> " + (folder_ / "stderr").string();
  }
  [[nodiscard]] std::string experiment() const { return (folder_ / "tiny.ini").string(); }
  int run(const std::string& arguments) const {
    const int status = std::system(line(arguments).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + status;
  }
  [[nodiscard]] std::string content(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }
  [[nodiscard]] std::size_t lines(const std::string& name) const {
    const std::string text = content(name);
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }

  fs::path folder_;
};

TEST_F(Fedsim, CompareTunesReportsAndWritesItsFiles) {
  ASSERT_EQ(run("compare " + experiment() + " --format json --processes 2"), 0)
      << content("stderr");
  const json report = json::parse(content("stdout"));
  EXPECT_GT(report.at("ratios").at("resident_vs_fedqueue_published").at("ratio"), 0);
  EXPECT_EQ(report.at("ratios").at("resident_vs_best_baseline").at("pairs"), 2);
  for (const json& policy : report.at("tuned")) {
    EXPECT_EQ(policy.at("failed"), 0) << policy.at("first_error");
    EXPECT_EQ(policy.at("seeds"), 2);
    EXPECT_GT(policy.at("final_accuracy").at("mean"), 0.5) << policy.at("policy");
  }
  EXPECT_EQ(json::parse(content("out/report.json")), report);
  EXPECT_THAT(content("out/report.html"), HasSubstr("resident_vs_best_baseline"));
  // Two choices of fedavg and one of each other on one tuning seed; three policies on two seeds,
  // tuned and equal.
  EXPECT_EQ(lines("out/cells.csv"), 1u + 4 + 6 + 6);
  EXPECT_THAT(content("stderr"), HasSubstr("cells"));
}

TEST_F(Fedsim, AStoppedComparisonGoesOnWhereItWas) {
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string command = line("compare " + experiment() + " --processes 1");
    ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    ::_exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(4);
  while (lines("out/results.jsonl") < 3 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ::kill(child, SIGTERM);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const std::size_t kept = lines("out/results.jsonl");
  ASSERT_GE(kept, 3u);
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
    EXPECT_EQ(WEXITSTATUS(status), 143);
  }
  ASSERT_EQ(run("compare " + experiment()), 0) << content("stderr");
  EXPECT_EQ(lines("out/results.jsonl"), 1u + 4 + 6 + 6) << "nothing is computed twice";
  EXPECT_THAT(content("stdout"), HasSubstr("resident_vs_best_baseline"));
}

TEST_F(Fedsim, RunShowsEveryPolicyOnce) {
  ASSERT_EQ(run("run " + experiment() + " --policy fedavg --seed 5"), 0) << content("stderr");
  EXPECT_THAT(content("stdout"), HasSubstr("fedavg"));
  EXPECT_THAT(content("out/cells.csv"), HasSubstr("calm,fedavg,5,"));
}

TEST_F(Fedsim, MistakesAreNamedBeforeAnythingIsComputed) {
  EXPECT_EQ(run("compare " + experiment() + " --policy fedavgg"), 2);
  EXPECT_THAT(content("stderr"), HasSubstr("'fedavgg' is not there"));
  EXPECT_EQ(run("compare nothing.ini"), 2);
  EXPECT_THAT(content("stderr"), HasSubstr("not built in"));
  std::ofstream(folder_ / "tiny.ini", std::ios::app) << "local_stepz = 5\n";
  EXPECT_EQ(run("compare " + experiment()), 2);
  EXPECT_THAT(content("stderr"), HasSubstr("local_steps"));
}

TEST_F(Fedsim, ReplaysTheLogThatIsGiven) {
  EXPECT_EQ(run("run replay --policy resident"), 2);
  EXPECT_THAT(content("stderr"), HasSubstr("--trace FILE"));
  EXPECT_EQ(run("run " + experiment() + " --trace " + (folder_ / "site.swf").string()), 2);
  EXPECT_THAT(content("stderr"), HasSubstr("no setting of 'tiny-run' reads a log"));

  std::ofstream log(folder_ / "site.swf");
  for (int i = 0; i < 300; ++i)
    log << i + 1 << " " << 600 * i << " " << 900 + i
        << " 1200 8 -1 -1 8 1800 -1 1 1 1 1 1 1 -1 -1\n";
  log.close();
  std::string replayed = kExperiment;
  replayed.replace(replayed.find("queue_mean = 1"), 14, "world = replay\ntrace = another.swf");
  std::ofstream(folder_ / "replayed.ini") << replayed;
  ASSERT_EQ(run("run " + (folder_ / "replayed.ini").string() + " --policy resident --trace " +
                (folder_ / "site.swf").string()),
            0)
      << content("stderr");
  EXPECT_THAT(content("out/cells.csv"), HasSubstr("calm,resident,1,"));
}

TEST_F(Fedsim, ScaleMeasuresTheEngine) {
  const std::string command =
      std::string(FEDSIM_PROGRAM) +
      " scale --policy fedavg,resident --facilities 20,40 --rounds 2 --format json > " +
      (folder_ / "stdout").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  const json result = json::parse(content("stdout"));
  ASSERT_EQ(result.size(), 4u) << "two policies, two sizes";
  EXPECT_EQ(result.at(1).at("facilities"), 40);
  EXPECT_GE(result.at(1).at("events"), 400);
}

}  // namespace
}  // namespace fedqueue
