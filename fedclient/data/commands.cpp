#include "fedclient/data/commands.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/base/file.h"
#include "core/base/ids.h"
#include "core/base/text.h"
#include "fedclient/data/checksums.h"
#include "fedclient/data/dataset.h"
#include "fedclient/data/partition.h"

namespace fedqueue {
namespace {

constexpr std::int64_t kFacilitiesMax = 10000;

struct Part {
  std::string name;
  std::int64_t samples = 0;             // of tokens how many
  std::vector<std::int64_t> histogram;  // none of tokens
};

nlohmann::ordered_json describe(const DataSplitOptions& options, const Dataset& whole,
                                const std::vector<Part>& parts) {
  const char* unit = whole.input.tokens ? "tokens" : "samples";
  nlohmann::ordered_json json;
  json["dataset"] = options.dataset.string();
  if (options.shards > 0) {
    json["shards"] = options.shards;
  } else {
    json["alpha"] = options.alpha ? nlohmann::ordered_json(*options.alpha) : "iid";
  }
  json["seed"] = options.seed;
  json[unit] = whole.input.tokens ? whole.tokens() : whole.samples();
  json["classes"] = whole.classes;
  json["facilities"] = nlohmann::ordered_json::array();
  for (const Part& part : parts) {
    nlohmann::ordered_json facility = {{"name", part.name}, {unit, part.samples}};
    if (!whole.input.tokens) facility["labels"] = part.histogram;
    json["facilities"].push_back(std::move(facility));
  }
  return json;
}

void print_table(const Dataset& whole, const std::vector<Part>& parts, std::ostream& out) {
  std::size_t width = 8;
  for (const Part& part : parts) width = std::max(width, part.name.size());
  out << std::left << std::setw(static_cast<int>(width)) << "facility" << std::right
      << std::setw(12) << (whole.input.tokens ? "tokens" : "samples")
      << (whole.input.tokens ? "\n" : "  samples per label\n");
  for (const Part& part : parts) {
    out << std::left << std::setw(static_cast<int>(width)) << part.name << std::right
        << std::setw(12) << part.samples << " ";
    for (const std::int64_t count : part.histogram) out << std::setw(6) << count;
    out << "\n";
  }
}

Result<Partition> divide(const DataSplitOptions& options, const Dataset& whole,
                         const PartitionOptions& partition) {
  if (options.shards > 0) return partition_shards(whole.labels, options.shards, partition);
  return options.alpha ? partition_dirichlet(whole.labels, *options.alpha, partition)
                       : partition_evenly(whole.samples(), partition);
}

Part part_of(const std::string& name, const Dataset& whole, std::span<const std::int64_t> samples) {
  Part part{name, static_cast<std::int64_t>(samples.size()),
            std::vector<std::int64_t>(static_cast<std::size_t>(whole.classes))};
  for (const std::int64_t index : samples)
    ++part.histogram[static_cast<std::size_t>(whole.labels[static_cast<std::size_t>(index)])];
  return part;
}

// Writes one part after the other, with its checksums.
Result<std::vector<Part>> write_parts(const DataSplitOptions& options, const Dataset& whole,
                                      DataFormat format) {
  PartitionOptions partition{static_cast<int>(options.facilities.size()), options.seed,
                             options.samples_min};
  std::vector<std::int64_t> bounds;  // of tokens
  Partition samples;                 // of anything else
  if (whole.input.tokens) {
    if (options.shards > 0) {
      return Error{Code::usage, "split the dataset: tokens have no labels to make shards of",
                   "Leave --shards out; --alpha A gives pieces of different lengths."};
    }
    partition.samples_min = std::max<std::int64_t>(2, options.samples_min);
    Result<std::vector<std::int64_t>> cut =
        partition_stream(whole.tokens(), options.alpha, partition);
    if (!cut) return cut.error();
    bounds = std::move(*cut);
  } else {
    Result<Partition> dealt = divide(options, whole, partition);
    if (!dealt) return dealt.error();
    samples = std::move(*dealt);
  }
  std::vector<Part> parts;
  for (std::size_t k = 0; k < options.facilities.size(); ++k) {
    const std::filesystem::path directory = options.output / options.facilities[k];
    Status written;
    if (whole.input.tokens) {
      const Dataset piece = whole.stretch(bounds[k], bounds[k + 1]);
      parts.push_back({options.facilities[k], piece.tokens(), {}});
      written = write_dataset(directory, Split::train, piece, format);
    } else {
      parts.push_back(part_of(options.facilities[k], whole, samples[k]));
      written = write_dataset(directory, Split::train, whole, format, samples[k]);
    }
    if (written) written = write_checksums(directory);
    if (!written) return written.error();
  }
  return parts;
}

}  // namespace

Result<std::vector<std::string>> parse_facility_list(const std::string& text) {
  std::vector<std::string> names;
  if (const auto count = parse_integer(trim(text))) {
    if (*count < 1 || *count > kFacilitiesMax) {
      return Error{Code::usage,
                   "read --facilities: " + text + " is not a number from 1 to " +
                       std::to_string(kFacilitiesMax),
                   "Give a number or names separated by commas."};
    }
    for (std::int64_t i = 1; i <= *count; ++i) names.push_back("facility-" + std::to_string(i));
    return names;
  }
  std::set<std::string> seen;
  for (const std::string& item : split(text, ',')) {
    const std::string name(trim(item));
    if (!is_name(name) || !seen.insert(name).second) {
      return Error{Code::usage,
                   "read --facilities: '" + name + "' is " +
                       (is_name(name) ? "named twice" : "not a facility name"),
                   "Names are 1 to 63 of the characters a-z, 0-9 and '-', each used once."};
    }
    names.push_back(name);
  }
  return names;
}

Result<std::optional<double>> parse_alpha(const std::string& text) {
  if (trim(text) == "iid") return std::optional<double>();
  const std::optional<double> alpha = parse_real(trim(text));
  if (!alpha || !std::isfinite(*alpha) || *alpha <= 0) {
    return Error{Code::usage, "read --alpha: '" + text + "' is neither a positive number nor 'iid'",
                 "Small values make the facilities differ more; 0.3 is a common choice."};
  }
  return alpha;
}

Status data_split(const DataSplitOptions& options, std::ostream& out) {
  const Result<DataFormat> format = find_format(options.dataset, Split::train);
  if (!format) return format.error();
  const Result<Dataset> whole = load_dataset(options.dataset, Split::train);
  if (!whole) return whole.error();
  const Result<std::vector<Part>> parts = write_parts(options, *whole, *format);
  if (!parts) return parts.error();
  const std::string description = describe(options, *whole, *parts).dump(2) + "\n";
  if (Status status = write_file_atomic(options.output / "split.json", description); !status) {
    return status;
  }
  if (options.json) {
    out << description;
  } else {
    print_table(*whole, *parts, out);
  }
  return {};
}

}  // namespace fedqueue
