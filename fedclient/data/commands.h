// The commands `fedclient data …`, free of LibTorch.
//
// `split` divides the training split of a dataset among facilities, writes one directory per
// facility in the dataset's own format with a manifest of checksums, and `split.json` beside them,
// and prints a table. The held-out split is left out: it is what models are judged on and no
// facility trains on it. `check` compares a directory with its manifest, looks through every sample
// and says what is there. `tokens` makes a dataset of bytes from text files.
//
// Thread safety: the functions may be called from any thread on distinct output directories.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace fedqueue {

struct DataSplitOptions {
  std::filesystem::path dataset;
  std::vector<std::string> facilities;  // names, as parse_facility_list makes them
  std::optional<double> alpha = 0.3;    // nothing: an even split
  int shards = 0;                       // of sorted labels per facility, instead of alpha; 0: none
  std::uint64_t seed = 1;
  std::int64_t samples_min = 10;
  std::filesystem::path output;
  bool json = false;  // print split.json's content instead of the table
};

// "4" becomes facility-1 … facility-4; "site-a,site-b" is taken as names.
Result<std::vector<std::string>> parse_facility_list(const std::string& text);

// "iid" becomes nothing, anything else must be a positive number.
Result<std::optional<double>> parse_alpha(const std::string& text);

// Splits, writes and prints. On failure directories already written are left behind.
Status data_split(const DataSplitOptions& options, std::ostream& out);

struct DataCheckOptions {
  std::filesystem::path dataset;
  std::filesystem::path plugin;  // that reads it; empty: none
  bool json = false;
};

// Code::data with the first thing that is wrong.
Status data_check(const DataCheckOptions& options, std::ostream& out);

struct DataTokensOptions {
  std::vector<std::filesystem::path> texts;
  std::filesystem::path output;
  double held_out = 0.1;  // of each text, its end
  bool json = false;
};

// Every byte of the texts becomes a token; the vocabulary is 256.
Status data_tokens(const DataTokensOptions& options, std::ostream& out);

}  // namespace fedqueue
