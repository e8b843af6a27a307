#include "fedclient/data/verbs.h"

#include <iostream>

#include "fedclient/data/commands.h"
#include "fedclient/data/dataset.h"

namespace fedqueue {
namespace {

Result<int> split_data(const Settings& settings) {
  DataSplitOptions options;
  options.dataset = settings.path("dataset");
  Result<std::vector<std::string>> facilities = parse_facility_list(settings.text("facilities"));
  if (!facilities) return facilities.error();
  options.facilities = std::move(*facilities);
  Result<std::optional<double>> alpha = parse_alpha(settings.text("alpha"));
  if (!alpha) return alpha.error();
  options.alpha = *alpha;
  options.seed = static_cast<std::uint64_t>(settings.integer("seed"));
  options.samples_min = settings.integer("samples_min");
  options.output = settings.path("output");
  options.json = settings.text("format") == "json";
  if (Status status = data_split(options, std::cout); !status) return status.error();
  return 0;
}

}  // namespace

std::vector<Command> data_commands() {
  Command split;
  split.verb = "data split";
  split.summary = "Divide a dataset among facilities";
  split.details =
      "Writes one directory of plain IDX files per facility, and split.json. With a small alpha "
      "each facility sees few of the classes, as real sites do; 'iid' deals evenly. The held-out "
      "split is not touched.";
  split.examples = {"fedclient data split --facilities site-a,site-b,site-c --alpha 0.3 -o parts"};
  split.options = {{.name = "dataset",
                    .kind = Kind::path,
                    .built_in = kDatasetDirectoryDefault,
                    .help = "Directory with the IDX files of the dataset.",
                    .value_name = "DIR"},
                   {.name = "facilities",
                    .built_in = "2",
                    .help = "Their number, or names with commas.",
                    .value_name = "N|NAMES",
                    .in_files = false},
                   {.name = "alpha",
                    .built_in = "0.3",
                    .help = "Dirichlet concentration, or 'iid'.",
                    .value_name = "A",
                    .in_files = false},
                   {.name = "seed",
                    .kind = Kind::integer,
                    .built_in = "1",
                    .help = "Seed of the division.",
                    .minimum = 0,
                    .in_files = false},
                   {.name = "samples_min",
                    .kind = Kind::integer,
                    .built_in = "10",
                    .help = "Fewest samples of a facility.",
                    .minimum = 1,
                    .in_files = false},
                   {.name = "output",
                    .kind = Kind::path,
                    .built_in = "parts",
                    .help = "Directory to write to.",
                    .short_form = 'o',
                    .value_name = "DIR",
                    .in_files = false}};
  split.reads = true;
  split.run = split_data;
  return {split};
}

}  // namespace fedqueue
