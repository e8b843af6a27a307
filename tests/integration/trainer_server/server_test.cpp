// The real trainer and the real server, over HTTPS: a run from its initial model to its end.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "fedclient/data/dataset.h"
#include "processes.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;

const std::string kTrainer = FEDCLIENT_TRAIN;
const std::string kServer = FEDSERVER;

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fedqueue-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    ::setenv("OMP_NUM_THREADS", "1", 1);
    for (const Split split : {Split::train, Split::held_out}) {
      EXPECT_TRUE(write_dataset(directory_ / "data", split, dataset()));
    }
    EXPECT_EQ(run("init-model", kTrainer + " model init --model mlp --classes 5"), 0) << log_;
  }
  ~ServerTest() override {
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  // 200 pictures of stripes whose distance is their label.
  static Dataset dataset() {
    std::vector<std::uint8_t> pixels;
    std::vector<std::int32_t> labels;
    for (int i = 0; i < 200; ++i) {
      const int label = i % 5;
      labels.push_back(label);
      for (int p = 0; p < 28 * 28; ++p) {
        pixels.push_back(
            static_cast<std::uint8_t>((p % (label + 2) == 0 ? 200 : 30) + (p * i) % 50));
      }
    }
    return Dataset::of_bytes({{1, 28, 28}}, std::move(pixels), std::move(labels));
  }

  int run(const std::string& name, const std::string& command) {
    Process process(directory_, name, command);
    const int code = process.wait();
    log_ = process.output();
    return code;
  }

  // A run of two rounds with the two facilities site-a and site-b.
  void start_server(const std::string& options) {
    ASSERT_EQ(run("init", kServer +
                              " init run --run stripes --initial initial.safetensors --host "
                              "localhost --port 0 --set training.batch_size=20 " +
                              options),
              0)
        << log_;
    for (const std::string name : {"site-a", "site-b"}) {
      ASSERT_EQ(run("cert", kServer + " cert facility run " + name + " --samples 200 -o " + name),
                0)
          << log_;
    }
    server_ = std::make_unique<Process>(directory_, "server", kServer + " run run");
    ASSERT_TRUE(eventually([&] { return !endpoint().empty(); })) << server_->output();
  }

  std::string endpoint() const {
    std::string text = content_of(directory_ / "run" / "server" / "endpoint");
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
    return text;
  }

  std::string connected(const std::string& verb, const std::string& facility) const {
    return kTrainer + " " + verb + " --kit " + facility + " --run stripes --server " + endpoint() +
           " --dataset data --work_directory work-" + facility;
  }

  // Both facilities train to the run's end, and what is newest is judged. Returns the judge's
  // lines.
  std::string train_and_judge() {
    std::filesystem::create_directories(directory_ / "work-judge");
    Process judge(directory_, "judge",
                  kTrainer +
                      " evaluate --follow --poll 0.2 --format json --kit site-a --run stripes" +
                      " --server " + endpoint() + " --dataset data --work_directory work-judge");
    Process first(directory_, "first", connected("train", "site-a"));
    Process second(directory_, "second", connected("train", "site-b"));
    EXPECT_EQ(first.wait(), 0) << first.output() << server_->output();
    EXPECT_EQ(second.wait(), 0) << second.output() << server_->output();
    EXPECT_EQ(judge.wait(), 0) << judge.output();
    return judge.output();
  }

  std::filesystem::path directory_;
  std::unique_ptr<Process> server_;
  std::string log_;
};

TEST_F(ServerTest, TwoFacilitiesTrainARunToItsEndAndItsLastVersionIsJudged) {
  ASSERT_NO_FATAL_FAILURE(
      start_server("--policy fedavg --local_steps 20 --lr_base 0.02 --rounds 2 --quorum 2 "
                   "--segments_per_job 10 --t_sync_s 60"));
  const std::string judged = train_and_judge();
  EXPECT_TRUE(std::filesystem::exists(directory_ / "run/server/models/round-0002.safetensors"))
      << server_->output();
  EXPECT_THAT(judged, HasSubstr("\"version\":2"));
  // A job that comes after the end is told so and is no failure.
  EXPECT_EQ(run("late", connected("train", "site-b")), 0) << log_;
}

std::string loss_in(const std::string& text) {
  const std::size_t at = text.rfind("\"loss\":");
  return at == std::string::npos ? std::string() : text.substr(at, text.find(',', at) - at);
}

TEST_F(ServerTest, ARunThatNormalisesIsJudgedNormalised) {
  ASSERT_NO_FATAL_FAILURE(
      start_server("--policy fedavg --local_steps 5 --lr_base 0.001 --rounds 2 --quorum 2 "
                   "--segments_per_job 10 --t_sync_s 60 --training.normalize 0.5/0.25"));
  const std::string judged = train_and_judge();
  const std::string offline = kTrainer +
                              " evaluate --format json --dataset data --model "
                              "run/server/models/round-0002.safetensors";
  ASSERT_EQ(run("normalised", offline + " --normalize 0.5/0.25"), 0) << log_;
  EXPECT_EQ(loss_in(log_), loss_in(judged)) << judged;
  ASSERT_EQ(run("otherwise", offline), 0) << log_;
  EXPECT_NE(loss_in(log_), loss_in(judged));
}

// What is judged is what a user takes away.
TEST_F(ServerTest, ThePolicysMeanOfVersionsIsJudgedAndExported) {
  ASSERT_NO_FATAL_FAILURE(
      start_server("--policy fedavg --local_steps 5 --lr_base 0.001 --rounds 3 --quorum 2 "
                   "--segments_per_job 10 --t_sync_s 60 --average_versions 3"));
  const std::string judged = train_and_judge();
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "work-judge")) << "fetched models stay";
  ASSERT_EQ(run("mean", kServer + " export run -o mean.safetensors"), 0) << log_;
  EXPECT_THAT(log_, HasSubstr("mean of versions 1 to 3"));
  ASSERT_EQ(run("newest", kServer + " export run --average 1 -o newest.safetensors"), 0) << log_;
  const std::string offline = kTrainer + " evaluate --format json --dataset data --model ";
  ASSERT_EQ(run("judge-mean", offline + "mean.safetensors"), 0) << log_;
  EXPECT_EQ(loss_in(log_), loss_in(judged)) << judged;
  ASSERT_EQ(run("judge-newest", offline + "newest.safetensors"), 0) << log_;
  EXPECT_NE(loss_in(log_), loss_in(judged));
}

TEST_F(ServerTest, WhatAKilledJobTrainedIsSentByItsNextLaunch) {
  ASSERT_NO_FATAL_FAILURE(
      start_server("--policy fedavg --local_steps 100000000 --lr_base 0.001 --quorum 2"));
  const auto launch = [&](const std::string& restarts) {
    return "env SLURM_JOB_ID=77 SLURM_RESTART_COUNT=" + restarts + " " +
           connected("train", "site-a") + " --snapshot 0.1";
  };
  const std::filesystem::path note = directory_ / "work-site-a/job-77/snapshots/site-a.77.0.1.json";
  {
    Process killed(directory_, "killed", launch("0"));
    ASSERT_TRUE(eventually([&] { return std::filesystem::exists(note); })) << killed.output();
  }  // ends by SIGKILL
  ASSERT_TRUE(std::filesystem::exists(note));
  Process second(directory_, "second", launch("1"));
  ASSERT_TRUE(eventually([&] { return second.output().find("registered") != std::string::npos; }))
      << second.output();
  EXPECT_THAT(second.output(), HasSubstr("sent what an earlier launch left"));
  EXPECT_THAT(second.output(), HasSubstr("update=site-a.77.0.1 disposition=counted"));
  EXPECT_FALSE(std::filesystem::exists(note));
  // And a signal makes the second launch send what it has.
  ASSERT_EQ(::kill(second.pid(), SIGTERM), 0);
  EXPECT_EQ(second.wait(), 0) << second.output();
}

TEST_F(ServerTest, ARunAnswersAJobWithAStrangersKitByName) {
  ASSERT_NO_FATAL_FAILURE(start_server("--policy fedavg"));
  const int code = run("wrong", connected("train", "site-a") + " --facility site-b");
  EXPECT_EQ(code, 25) << log_;
  EXPECT_THAT(log_, HasSubstr("site-b"));
}

TEST_F(ServerTest, ABadOptionOfTheJobIsReportedBeforeAnythingElse) {
  EXPECT_EQ(run("bad", "env FED_ERROR='--fed-run: My Run is no name' " + kTrainer + " train"), 2);
  EXPECT_THAT(log_, HasSubstr("My Run is no name"));
}

}  // namespace
}  // namespace fedqueue
