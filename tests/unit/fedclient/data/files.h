// A directory of its own for one test, removed afterwards, and small datasets to put in it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "fedclient/data/dataset.h"

namespace fedqueue {

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fedqueue-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  ~FilesTest() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path put(const std::string& name, const std::string& content) {
    std::ofstream(directory_ / name, std::ios::binary) << content;
    return directory_ / name;
  }

  std::filesystem::path directory_;
};

// n images of 2×3 pixels whose first pixel is the sample's number, labels 0 … classes-1 in turn.
inline Dataset counted_dataset(int n, int classes) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;
  for (int i = 0; i < n; ++i) {
    labels.push_back(i % classes);
    for (int p = 0; p < 6; ++p) pixels.push_back(static_cast<std::uint8_t>(p == 0 ? i : p));
  }
  return Dataset::of_bytes({{1, 2, 3}}, std::move(pixels), std::move(labels));
}

}  // namespace fedqueue
