#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "fedclient/data/checksums.h"
#include "fedclient/data/commands.h"
#include "fedclient/data/dataset.h"
#include "fedclient/data/formats.h"
#include "fedclient/data/plugin.h"

namespace fedqueue {
namespace {

constexpr std::int64_t kBytesAtOnce = std::int64_t{4} << 20;
constexpr std::int64_t kClassesShown = 100;

struct Found {
  Split split;
  std::string format;
  Dataset dataset;
  std::vector<std::int64_t> histogram;  // of labels, or of tokens
};

const char* title(Split split) { return split == Split::train ? "train" : "held_out"; }

// Reads every sample; what is wrong with one is said.
Result<std::vector<std::int64_t>> look_through(const Dataset& dataset) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(dataset.classes));
  const auto step =
      std::max<std::int64_t>(1, kBytesAtOnce / static_cast<std::int64_t>(dataset.sample_bytes()));
  std::vector<std::int64_t> indices;
  for (std::int64_t begin = 0; begin < dataset.samples(); begin += step) {
    indices.resize(static_cast<std::size_t>(std::min(step, dataset.samples() - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    const Result<Batch> batch = read_batch(dataset, indices);
    if (!batch) return batch.error();
    for (const std::int64_t target : batch->targets) ++counts[static_cast<std::size_t>(target)];
    if (dataset.input.tokens && begin == 0) {
      // The first token is predicted by none.
      std::int64_t first = 0;
      std::memcpy(&first, batch->values.data(), sizeof first);
      ++counts[static_cast<std::size_t>(first)];
    }
  }
  return counts;
}

nlohmann::ordered_json describe(const Found& found) {
  const bool tokens = found.dataset.input.tokens;
  return {
      {"format", found.format},
      {tokens ? "tokens" : "samples", tokens ? found.dataset.tokens() : found.dataset.samples()},
      {"input", tokens ? "tokens" : found.dataset.input.text()},
      {"dtype", tensor::name_of(found.dataset.dtype)},
      {"classes", found.dataset.classes},
      {"histogram", found.histogram}};
}

void print(const Found& found, std::ostream& out) {
  const Dataset& dataset = found.dataset;
  out << title(found.split) << ": ";
  if (dataset.input.tokens) {
    const auto used =
        std::count_if(found.histogram.begin(), found.histogram.end(), [](auto n) { return n > 0; });
    out << dataset.tokens() << " tokens, " << used << " words used of " << dataset.classes;
  } else {
    out << dataset.samples() << " samples, " << dataset.text();
  }
  out << ", " << tensor::name_of(dataset.dtype) << " (" << found.format << ")\n";
  if (dataset.input.tokens) return;
  if (dataset.classes > kClassesShown) {
    const auto [least, most] = std::minmax_element(found.histogram.begin(), found.histogram.end());
    out << "  samples per label: " << *least << " to " << *most << "\n";
    return;
  }
  out << "  samples per label:";
  for (const std::int64_t count : found.histogram) out << " " << count;
  out << "\n";
}

// The splits that are there; one of them at least.
Result<std::vector<Found>> load_splits(const DataCheckOptions& options) {
  std::vector<Found> all;
  for (const Split split : {Split::train, Split::held_out}) {
    // A facility's part has no held-out split.
    const bool needed = split == Split::train;
    if (!options.plugin.empty()) {
      Result<Dataset> dataset = load_with_plugin(options.plugin, options.dataset, split);
      if (!dataset && needed) return dataset.error();
      if (dataset)
        all.push_back({split, options.plugin.filename().string(), std::move(*dataset), {}});
      continue;
    }
    const auto& formats = data_formats();
    const bool there = std::any_of(formats.begin(), formats.end(), [&](const FormatEntry& entry) {
      return entry.present(options.dataset, split);
    });
    if (!there) continue;
    const Result<DataFormat> format = find_format(options.dataset, split);
    if (!format) return format.error();
    Result<Dataset> dataset = load_dataset(options.dataset, split);
    if (!dataset) return dataset.error();
    all.push_back({split, name_of(*format), std::move(*dataset), {}});
  }
  if (all.empty()) return find_format(options.dataset, Split::train).error();
  return all;
}

}  // namespace

Status data_check(const DataCheckOptions& options, std::ostream& out) {
  const Result<std::optional<int>> verified = verify_checksums(options.dataset);
  if (!verified) return verified.error();
  Result<std::vector<Found>> all = load_splits(options);
  if (!all) return all.error();
  for (Found& found : *all) {
    Result<std::vector<std::int64_t>> histogram = look_through(found.dataset);
    if (!histogram) return within(options.dataset.string(), histogram.error());
    found.histogram = std::move(*histogram);
  }
  if (options.json) {
    nlohmann::ordered_json json = {{"dataset", options.dataset.string()},
                                   {"files_verified", verified->value_or(0)}};
    for (const Found& found : *all) json[title(found.split)] = describe(found);
    out << json.dump() << "\n";
    return {};
  }
  for (const Found& found : *all) print(found, out);
  if (*verified) {
    out << **verified << " files as in " << kChecksumFile << "\n";
  } else {
    out << "no " << kChecksumFile << " to compare with\n";
  }
  return {};
}

}  // namespace fedqueue
