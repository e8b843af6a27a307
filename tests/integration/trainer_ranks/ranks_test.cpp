// The real trainer under the real mpirun: the number of ranks does not matter, and ranks that stop
// or die take the whole job with them.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "core/tensor/control.h"
#include "fedclient/data/dataset.h"
#include "processes.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;

const std::string kTrainer = FEDCLIENT_TRAIN;

class RanksTest : public ::testing::Test {
 protected:
  RanksTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fedqueue-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    ::setenv("OMP_NUM_THREADS", "1", 1);
    EXPECT_TRUE(write_dataset(directory_ / "data", Split::train, dataset()));
  }
  ~RanksTest() override { std::filesystem::remove_all(directory_); }

  void SetUp() override {
    if (std::string(MPIRUN).empty()) GTEST_SKIP() << "mpirun is not installed";
  }

  // 300 pictures of stripes whose distance is their label.
  static Dataset dataset() {
    std::vector<std::uint8_t> pixels;
    std::vector<std::int32_t> labels;
    for (int i = 0; i < 300; ++i) {
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

  void make_model(const std::string& model) {
    ASSERT_EQ(run("init", kTrainer + " model init --model " + model + " -o initial.safetensors"), 0)
        << log_;
  }

  std::string local(const std::string& options) {
    return kTrainer + " train local --initial initial.safetensors --dataset data " + options;
  }

  // All floats of a model, in the order of the file.
  std::vector<float> floats(const std::string& file) {
    Result<tensor::Reader> reader = tensor::Reader::open(directory_ / file);
    EXPECT_TRUE(reader) << log_;
    std::vector<float> out;
    for (const tensor::TensorInfo& info : reader->manifest().tensors) {
      if (info.dtype != tensor::DType::f32) continue;
      std::vector<float> values(info.elements());
      EXPECT_TRUE(reader->read_tensor(info, std::as_writable_bytes(std::span(values))));
      out.insert(out.end(), values.begin(), values.end());
    }
    return out;
  }

  // mpirun with ranks that leave their process ids in files.
  std::string ranks_with_pids(int ranks, const std::string& options) {
    return std::string(MPIRUN) + " -n " + std::to_string(ranks) +
           " sh -c 'echo $$ > pid.$OMPI_COMM_WORLD_RANK; exec " + local(options) + "'";
  }
  pid_t pid_of(int rank) {
    const std::string text = content_of(directory_ / ("pid." + std::to_string(rank)));
    return text.empty() ? 0 : std::stoi(text);
  }

  std::filesystem::path directory_;
  std::string log_;
};

// The parameters may differ by rounding: at most 1e-5 of the largest parameter after 50 steps.
TEST_F(RanksTest, TheNumberOfRanksDoesNotChangeTheResult) {
  for (const std::string model : {"mlp", "lenet5"}) {
    make_model(model);
    const std::string options = "--steps 50 --batch_size 50 --learning_rate 0.02 -o ";
    ASSERT_EQ(run("one", local(options + "one.safetensors")), 0) << log_;
    const std::vector<float> one = floats("one.safetensors");
    const float largest = std::abs(*std::max_element(
        one.begin(), one.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
    EXPECT_NE(one, floats("initial.safetensors"));
    for (const int ranks : {2, 3}) {  // 50 = 25 + 25 = 16 + 17 + 17
      const std::string file = "ranks" + std::to_string(ranks) + ".safetensors";
      // Many small sums while the backward pass goes on; the three ranks are on two nodes, and
      // compute their samples in parts.
      const std::string how = ranks == 2 ? "" : "env FEDQUEUE_RANKS_PER_NODE=2 ";
      const std::string parts = ranks == 2 ? "" : "--micro_batch 7 ";
      ASSERT_EQ(run("many", how + MPIRUN + " -n " + std::to_string(ranks) + " " +
                                local("--bucket 4 " + parts + options + file)),
                0)
          << log_;
      const std::vector<float> many = floats(file);
      ASSERT_EQ(many.size(), one.size());
      float difference = 0;
      for (std::size_t i = 0; i < one.size(); ++i) {
        difference = std::max(difference, std::abs(one[i] - many[i]));
      }
      EXPECT_LE(difference, 1e-5f * largest) << model << " on " << ranks << " ranks";
    }
  }
}

TEST_F(RanksTest, TheSameRanksComputeTheSameBits) {
  make_model("lenet5");
  const std::string train = std::string(MPIRUN) + " -n 3 " +
                            local("--bucket 4 --steps 10 --batch_size 50 --format json -o ");
  ASSERT_EQ(run("first", train + "first.safetensors"), 0) << log_;
  EXPECT_THAT(log_, HasSubstr("\"reduce_exposed_seconds\":"));
  EXPECT_THAT(log_, ::testing::Not(HasSubstr("\"reduce_seconds\":0.0,")));
  ASSERT_EQ(run("second", train + "second.safetensors"), 0) << log_;
  EXPECT_EQ(floats("first.safetensors"), floats("second.safetensors"));
}

// A facility gets two ranks, then one: momentum, schedule and the order of the samples go on.
TEST_F(RanksTest, AnotherNumberOfRanksGoesOnWithTheTrainingState) {
  make_model("mlp");
  const std::string recipe =
      "--batch_size 50 --learning_rate 0.02 --lr_schedule cosine --lr_schedule_steps 40 ";
  ASSERT_EQ(run("whole", local(recipe + "--steps 30 -o whole.safetensors")), 0) << log_;
  const std::vector<float> whole = floats("whole.safetensors");
  ASSERT_EQ(run("first", std::string(MPIRUN) + " -n 2 " +
                             local(recipe + "--steps 15 --state state -o initial.safetensors")),
            0)
      << log_;
  ASSERT_EQ(run("second", local(recipe + "--steps 15 --state state -o both.safetensors")), 0)
      << log_;
  const std::vector<float> both = floats("both.safetensors");
  ASSERT_EQ(both.size(), whole.size());
  float apart = 0;
  for (std::size_t i = 0; i < both.size(); ++i)
    apart = std::max(apart, std::abs(both[i] - whole[i]));
  EXPECT_LT(apart, 1e-5f);
}

// What both ranks agree on does not become better with more of them, so that the rate lies between
// that of one rank and twice it.
TEST_F(RanksTest, AdaScaleRaisesTheRateByWhatTheRanksDisagreeOn) {
  make_model("mlp");
  const std::string recipe =
      "--batch_size 8 --batch_per_rank --adascale --learning_rate 0.01 --momentum 0 --steps 30 "
      "--format json";
  ASSERT_EQ(run("one", local(recipe)), 0) << log_;
  EXPECT_THAT(log_, HasSubstr("\"learning_rate\":0.01,"));
  ASSERT_EQ(run("two", std::string(MPIRUN) + " -n 2 " + local(recipe)), 0) << log_;
  const std::string name = "\"learning_rate\":";
  ASSERT_THAT(log_, HasSubstr(name));
  const double rate = std::stod(log_.substr(log_.find(name) + name.size()));
  EXPECT_GT(rate, 0.0101);
  EXPECT_LE(rate, 0.02);
  EXPECT_THAT(log_, HasSubstr("\"samples\":480,"));
  EXPECT_THAT(log_, HasSubstr("\"noise_scale\":"));
}

// Every rank follows the same corrected gradient: c is 0.01 for every parameter.
// Three epochs of 300 samples, the later ones drawn by the losses of those before.
TEST_F(RanksTest, EveryRankKnowsTheLossesOfAllSamples) {
  make_model("mlp");
  const std::string options =
      "--sampling loss_weighted --steps 18 --batch_size 50 --learning_rate 0.02 ";
  ASSERT_EQ(run("one", local(options + "--state one -o one.safetensors")), 0) << log_;
  ASSERT_EQ(run("three", std::string(MPIRUN) + " -n 3 " +
                             local(options + "--state three -o three.safetensors")),
            0)
      << log_;
  const std::vector<float> one = floats("one.safetensors");
  const std::vector<float> three = floats("three.safetensors");
  ASSERT_EQ(three.size(), one.size());
  float apart = 0;
  for (std::size_t i = 0; i < one.size(); ++i) apart = std::max(apart, std::abs(three[i] - one[i]));
  EXPECT_LT(apart, 1e-5f);
  const auto losses_in = [&](const std::string& file) {
    Result<tensor::Reader> reader = tensor::Reader::open(directory_ / file);
    EXPECT_TRUE(reader);
    std::vector<float> values(300);
    EXPECT_TRUE(reader->read_tensor(*reader->manifest().find("sampling.losses"),
                                    std::as_writable_bytes(std::span(values))));
    return values;
  };
  EXPECT_THAT(losses_in("three"),
              ::testing::Pointwise(::testing::FloatNear(1e-4f), losses_in("one")));
}

// Every look is at the same samples, however many ranks share them.
TEST_F(RanksTest, TheRateThatIsFoundIsThatOfOneRank) {
  make_model("mlp");
  const std::string find = kTrainer +
                           " train find-rate --initial initial.safetensors --dataset data "
                           "--batch_size 50 --searches 5 --format json";
  // Up to the slopes, which rounding changes.
  const auto begin_of_report = [&] {
    const std::size_t begin = log_.find("{\"learning_rate\":");
    return begin == std::string::npos ? "" : log_.substr(begin, log_.find("slope", begin) - begin);
  };
  ASSERT_EQ(run("one", find), 0) << log_;
  const std::string one = begin_of_report();
  EXPECT_THAT(one, HasSubstr("\"gradients\":"));
  ASSERT_EQ(run("two", std::string(MPIRUN) + " -n 2 " + find), 0) << log_;
  EXPECT_EQ(begin_of_report(), one);
}

TEST_F(RanksTest, ControlVariatesReachEveryRank) {
  make_model("mlp");
  const tensor::Reader plain = *tensor::Reader::open(directory_ / "initial.safetensors");
  const tensor::Manifest layout = *tensor::with_controls(plain.manifest());
  auto writer = tensor::Writer::create(directory_ / "controlled.safetensors", layout);
  for (const tensor::TensorInfo& info : layout.tensors) {
    std::vector<float> values(info.elements(), 0.01f);
    if (!is_control(info)) {
      ASSERT_TRUE(plain.read_tensor(*plain.manifest().find(info.name),
                                    std::as_writable_bytes(std::span(values))));
    }
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(values))));
  }
  ASSERT_TRUE(writer->finish());
  const auto train = [&](const std::string& file) {
    return local("--steps 20 --batch_size 50 --learning_rate 0.02 --momentum 0 -o " + file);
  };
  ASSERT_EQ(run("plain", train("plain.safetensors")), 0) << log_;
  std::filesystem::rename(directory_ / "controlled.safetensors",
                          directory_ / "initial.safetensors");
  ASSERT_EQ(run("one", train("one.safetensors")), 0) << log_;
  ASSERT_EQ(run("two", std::string(MPIRUN) + " -n 2 " + train("two.safetensors")), 0) << log_;
  const std::vector<float> one = floats("one.safetensors");
  const std::vector<float> two = floats("two.safetensors");
  const std::vector<float> without = floats("plain.safetensors");
  ASSERT_EQ(one.size(), two.size());
  float apart = 0;
  float corrected = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    apart = std::max(apart, std::abs(one[i] - two[i]));
    corrected = std::max(corrected, std::abs(one[i] - without[i]));
  }
  EXPECT_LT(apart, 1e-5f);
  EXPECT_GT(corrected, 1e-3f);
}

TEST_F(RanksTest, AStoppedRankEndsTheWholeJob) {
  make_model("mlp");
  Process job(directory_, "job",
              ranks_with_pids(2, "--steps 100000000 --progress 0.1 --watchdog 2 --bucket 4"));
  ASSERT_TRUE(eventually([&] {
    return job.output().find("msg=\"training\"") != std::string::npos;
  })) << job.output();
  const pid_t first = pid_of(0);
  const pid_t second = pid_of(1);
  ASSERT_GT(second, 0);
  ASSERT_EQ(::kill(second, SIGSTOP), 0);
  EXPECT_NE(job.wait(), 0);
  EXPECT_THAT(job.output(), HasSubstr("rank 0 of 2 on"));
  EXPECT_THAT(job.output(), HasSubstr("no progress for 2 s at step"));
  EXPECT_TRUE(eventually([&] { return gone(first) && gone(second); }));
}

TEST_F(RanksTest, AKilledRankEndsTheWholeJob) {
  make_model("mlp");
  Process job(directory_, "job", ranks_with_pids(2, "--steps 100000000 --progress 0.1 --bucket 4"));
  ASSERT_TRUE(eventually([&] {
    return job.output().find("msg=\"training\"") != std::string::npos;
  })) << job.output();
  const pid_t survivor = pid_of(0);
  ASSERT_EQ(::kill(pid_of(1), SIGKILL), 0);
  EXPECT_NE(job.wait(), 0);
  EXPECT_TRUE(eventually([&] { return gone(survivor); }));
}

TEST_F(RanksTest, ASignalEndsTrainingAfterTheStepAtHandWithItsUpdate) {
  make_model("mlp");
  Process job(directory_, "job",
              ranks_with_pids(2,
                              "--steps 100000000 --progress 0.1 --format json "
                              "--update update.safetensors"));
  ASSERT_TRUE(eventually([&] {
    return job.output().find("msg=\"training\"") != std::string::npos;
  })) << job.output();
  // Slurm signals every task; rank 0 alone decides.
  for (const int rank : {1, 0}) ASSERT_EQ(::kill(pid_of(rank), SIGUSR1), 0);
  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_THAT(job.output(), HasSubstr("\"stopped_early\":true"));
  EXPECT_FALSE(floats("update.safetensors").empty());
}

TEST_F(RanksTest, TasksThatDoNotFindEachOtherAreRefused) {
  make_model("mlp");
  EXPECT_EQ(run("alone", "env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 " + local("--steps 1")), 40);
  EXPECT_THAT(log_, HasSubstr("rank 0 of 1, but Slurm started 2 tasks"));
}

// Each of four heads compares 8,192 tokens with each other: 1 GB a sample and layer.
TEST_F(RanksTest, TooLittleMemoryIsSaidWithACure) {
  std::filesystem::create_directory(directory_ / "text");
  std::ofstream(directory_ / "text/train.tokens") << std::string(2 * (4 * 8192 + 1), '\0');
  std::ofstream(directory_ / "text/tokens.json") << R"({"dtype": "u16", "vocabulary": 16})";
  ASSERT_EQ(run("init", kTrainer + " model init --model gpt --input tokens:8192 --classes 16"), 0)
      << log_;
  EXPECT_EQ(run("memory", "bash -c 'ulimit -v 4000000; exec " + kTrainer +
                              " train local --dataset text --steps 1 --batch_size 4 --threads 1'"),
            exit_code({Code::memory, "", ""}))
      << log_;
  EXPECT_THAT(log_, HasSubstr("not enough memory for 4 samples"));
  EXPECT_THAT(log_, HasSubstr("Try 2"));
}

TEST_F(RanksTest, ARankWithoutDataEndsTheJobWithItsReason) {
  make_model("mlp");
  const int code = run("missing", std::string(MPIRUN) + " -n 2 sh -c 'exec " + kTrainer +
                                      " train local --initial initial.safetensors --dataset "
                                      "data$( [ $OMPI_COMM_WORLD_RANK = 1 ] && echo -missing )'");
  EXPECT_EQ(code, 50) << log_;
  EXPECT_THAT(log_, HasSubstr("rank 1"));
  EXPECT_THAT(log_, HasSubstr("does not exist"));
}

}  // namespace
}  // namespace fedqueue
