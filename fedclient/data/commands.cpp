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
#include "fedclient/data/dataset.h"
#include "fedclient/data/partition.h"

namespace fedqueue {
namespace {

constexpr std::int64_t kFacilitiesMax = 10000;

struct Part {
  std::string name;
  std::vector<std::int64_t> histogram;
  std::int64_t samples = 0;
};

nlohmann::ordered_json describe(const DataSplitOptions& options, const Dataset& whole,
                                const std::vector<Part>& parts) {
  nlohmann::ordered_json json;
  json["dataset"] = options.dataset.string();
  json["alpha"] = options.alpha ? nlohmann::ordered_json(*options.alpha) : "iid";
  json["seed"] = options.seed;
  json["samples"] = whole.samples();
  json["classes"] = whole.classes;
  json["facilities"] = nlohmann::ordered_json::array();
  for (const Part& part : parts) {
    json["facilities"].push_back(
        {{"name", part.name}, {"samples", part.samples}, {"labels", part.histogram}});
  }
  return json;
}

void print_table(const std::vector<Part>& parts, std::ostream& out) {
  std::size_t width = 8;
  for (const Part& part : parts) width = std::max(width, part.name.size());
  out << std::left << std::setw(static_cast<int>(width)) << "facility" << std::right
      << std::setw(10) << "samples"
      << "  samples per label\n";
  for (const Part& part : parts) {
    out << std::left << std::setw(static_cast<int>(width)) << part.name << std::right
        << std::setw(10) << part.samples << " ";
    for (const std::int64_t count : part.histogram) out << std::setw(6) << count;
    out << "\n";
  }
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
  Result<Dataset> whole = load_dataset(options.dataset, Split::train);
  if (!whole) return whole.error();
  PartitionOptions partition_options;
  partition_options.facilities = static_cast<int>(options.facilities.size());
  partition_options.seed = options.seed;
  partition_options.samples_min = options.samples_min;
  Result<Partition> partition =
      options.alpha ? partition_dirichlet(whole->labels, *options.alpha, partition_options)
                    : partition_evenly(whole->samples(), partition_options);
  if (!partition) return partition.error();

  std::vector<Part> parts;
  for (std::size_t k = 0; k < options.facilities.size(); ++k) {
    const Dataset part = whole->subset((*partition)[k]);
    if (Status status = write_dataset(options.output / options.facilities[k], Split::train, part);
        !status) {
      return status;
    }
    parts.push_back({options.facilities[k], part.histogram(), part.samples()});
  }
  const std::string description = describe(options, *whole, parts).dump(2) + "\n";
  if (Status status = write_file_atomic(options.output / "split.json", description); !status) {
    return status;
  }
  if (options.json) {
    out << description;
  } else {
    print_table(parts, out);
  }
  return {};
}

}  // namespace fedqueue
