// What only a GPU can show; skipped, with the reason, where there is none.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "core/base/prng.h"
#include "fedclient/data/dataset.h"
#include "fedclient/trainer/network.h"
#include "processes.h"

namespace fedqueue {
namespace {

using ::testing::HasSubstr;

Dataset noise(const InputShape& input, int samples, int classes) {
  Prng prng(7);
  std::vector<std::uint8_t> values;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < samples; ++i) {
    labels.push_back(i % classes);
    for (std::int64_t p = 0; p < input.elements(); ++p)
      values.push_back(static_cast<std::uint8_t>(prng.below(256)));
  }
  return Dataset::of_bytes(input, std::move(values), std::move(labels));
}

class Gpu : public ::testing::Test {
 protected:
  Gpu() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fedqueue-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ::setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
  }
  ~Gpu() override { std::filesystem::remove_all(directory_); }

  void SetUp() override {
    const auto network = Network::create({"mlp"}, on_gpu());
    if (!network) GTEST_SKIP() << network.error().message;
  }

  static NetworkOptions on_gpu() {
    NetworkOptions options;
    options.device = "cuda";
    return options;
  }

  int run(const std::string& name, const std::string& command) {
    Process process(directory_, name, command);
    const int code = process.wait();
    log_ = process.output();
    return code;
  }

  std::filesystem::path directory_;
  std::string log_;
};

std::vector<float> floats_of(const Network& network) {
  std::vector<std::byte> state(network.manifest().data_bytes);
  EXPECT_TRUE(network.store(state));
  std::vector<float> out;
  for (const tensor::TensorInfo& info : network.manifest().tensors) {
    if (info.dtype != tensor::DType::f32) continue;
    const std::size_t at = out.size();
    out.resize(at + info.elements());
    std::memcpy(out.data() + at, state.data() + info.begin, info.bytes());
  }
  return out;
}

TEST_F(Gpu, StepsAreThoseOfTheProcessor) {
  for (const NetworkSpec& spec :
       {NetworkSpec{"lenet5", 10, {{1, 28, 28}}}, NetworkSpec{"resnet18", 10, {{3, 32, 32}}}}) {
    auto cpu = Network::create(spec, {});
    auto gpu = Network::create(spec, on_gpu());
    ASSERT_TRUE(cpu && gpu);
    std::vector<std::byte> state((*cpu)->manifest().data_bytes);
    ASSERT_TRUE((*cpu)->store(state));
    ASSERT_TRUE((*gpu)->load(state));
    const Dataset dataset = noise(spec.input, 32, 10);
    LocalStep step;
    step.learning_rate = 0.01;
    for (int i = 0; i < 3; ++i) {
      for (Network* network : {cpu->get(), gpu->get()}) {
        ASSERT_TRUE(network->accumulate(gather(dataset, 0, 32), {.global_batch = 32}));
        ASSERT_TRUE(network->apply(step));
      }
    }
    const std::vector<float> expected = floats_of(**cpu), got = floats_of(**gpu);
    double difference = 0, length = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      difference += std::pow(got[i] - expected[i], 2);
      length += std::pow(expected[i], 2);
    }
    EXPECT_LT(std::sqrt(difference / length), 1e-3) << spec.model;
  }
}

TEST_F(Gpu, OneRankTrainsOverNccl) {
  if (std::string(MPIRUN).empty()) GTEST_SKIP() << "mpirun is not installed";
  ASSERT_TRUE(write_dataset(directory_ / "data", Split::train, noise({{1, 28, 28}}, 256, 10)));
  const std::string trainer = FEDCLIENT_TRAIN;
  ASSERT_EQ(run("init", trainer + " model init --model lenet5"), 0) << log_;
  ASSERT_EQ(run("train", std::string(MPIRUN) + " -n 1 " + trainer +
                             " train local --dataset data --steps 20 --device cuda"),
            0)
      << log_;
  EXPECT_THAT(log_, HasSubstr("GPU-"));
}

TEST_F(Gpu, TwoRanksOnOneGpuAreNamedAndRefused) {
  if (std::string(MPIRUN).empty()) GTEST_SKIP() << "mpirun is not installed";
  ASSERT_TRUE(write_dataset(directory_ / "data", Split::train, noise({{1, 28, 28}}, 64, 10)));
  const std::string trainer = FEDCLIENT_TRAIN;
  ASSERT_EQ(run("init", trainer + " model init --model mlp"), 0) << log_;
  EXPECT_EQ(run("train", "env CUDA_VISIBLE_DEVICES=0 " + std::string(MPIRUN) + " -n 2 " + trainer +
                             " train local --dataset data --steps 2 --device cuda"),
            exit_code({Code::device, "", ""}))
      << log_;
  EXPECT_THAT(log_, HasSubstr("would share GPU-"));
}

}  // namespace
}  // namespace fedqueue
