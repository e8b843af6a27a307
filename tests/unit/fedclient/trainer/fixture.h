// A small task that a model can learn, and a directory for its files.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/prng.h"
#include "core/tensor/file.h"
#include "fedclient/data/dataset.h"
#include "fedclient/trainer/network.h"
#include "fedclient/trainer/trainer.h"

namespace fedqueue {

// Each class is a random 12×12 picture; its samples are that picture with noise.
inline Dataset picture_dataset(int samples, int classes = 4, std::uint64_t seed = 5) {
  Prng pictures(99);
  std::vector<int> prototypes;
  for (int i = 0; i < classes * 144; ++i)
    prototypes.push_back(static_cast<int>(pictures.below(256)));
  Prng prng(seed);
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < samples; ++i) {
    const int label = i % classes;
    labels.push_back(label);
    for (int p = 0; p < 144; ++p) {
      const double value =
          prototypes[static_cast<std::size_t>(label * 144 + p)] + 60 * prng.normal();
      pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)));
    }
  }
  return Dataset::of_bytes({{1, 12, 12}}, std::move(pixels), std::move(labels));
}

class TrainingTest : public ::testing::Test {
 protected:
  TrainingTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fedqueue-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~TrainingTest() override { std::filesystem::remove_all(directory_); }

  // An initial model for picture_dataset().
  std::filesystem::path make_model(const std::string& model = "mlp", std::uint64_t seed = 1) {
    const std::filesystem::path path = directory_ / (model + std::to_string(seed) + ".safetensors");
    const Result<InitialisedModel> made = init_model({{model, 4, {{1, 12, 12}}}, seed}, path);
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return path;
  }

  static std::vector<float> floats(const std::filesystem::path& path, const std::string& name) {
    Result<tensor::Reader> reader = tensor::Reader::open(path);
    EXPECT_TRUE(reader);
    const tensor::TensorInfo* info = reader->manifest().find(name);
    EXPECT_NE(info, nullptr) << name;
    std::vector<float> values(info->elements());
    EXPECT_TRUE(reader->read_tensor(*info, std::as_writable_bytes(std::span(values))));
    return values;
  }

  static std::int64_t counter(const std::filesystem::path& path, const std::string& name) {
    Result<tensor::Reader> reader = tensor::Reader::open(path);
    std::int64_t value = -1;
    EXPECT_TRUE(reader->read_tensor(*reader->manifest().find(name),
                                    std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }

  std::filesystem::path directory_;
};

}  // namespace fedqueue
