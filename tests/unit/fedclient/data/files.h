// A directory of its own for one test, removed afterwards, and small datasets to put in it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

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
  Dataset dataset;
  dataset.rows = 2;
  dataset.columns = 3;
  dataset.classes = classes;
  for (int i = 0; i < n; ++i) {
    dataset.labels.push_back(static_cast<std::uint8_t>(i % classes));
    for (int p = 0; p < 6; ++p) dataset.images.push_back(static_cast<std::uint8_t>(p == 0 ? i : p));
  }
  return dataset;
}

}  // namespace fedqueue
