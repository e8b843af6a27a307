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
  options.shards = static_cast<int>(settings.integer("shards"));
  if (options.shards > 0 && settings.given("alpha")) {
    return Error{Code::usage, "split the dataset: --shards and --alpha are two ways to divide it",
                 "Keep one of them."};
  }
  options.seed = static_cast<std::uint64_t>(settings.integer("seed"));
  options.samples_min = settings.integer("samples_min");
  options.output = settings.path("output");
  options.json = settings.text("format") == "json";
  if (Status status = data_split(options, std::cout); !status) return status.error();
  return 0;
}

Result<int> check_data(const Settings& settings) {
  const DataCheckOptions options{settings.argument(0), settings.path("data_plugin"),
                                 settings.text("format") == "json"};
  if (Status status = data_check(options, std::cout); !status) return status.error();
  return 0;
}

Result<int> make_tokens(const Settings& settings) {
  DataTokensOptions options;
  for (const std::string& text : settings.arguments()) options.texts.emplace_back(text);
  options.output = settings.path("output");
  options.held_out = settings.real("held_out");
  options.json = settings.text("format") == "json";
  if (Status status = data_tokens(options, std::cout); !status) return status.error();
  return 0;
}

Command split_command() {
  Command split;
  split.verb = "data split";
  split.summary = "Divide a dataset among facilities";
  split.details =
      "Writes one directory per facility in the format of the dataset, with checksums, and "
      "split.json. With a small alpha each facility sees few of the classes, as real sites do; "
      "'iid' deals evenly. Tokens are cut into pieces, whose lengths differ by alpha. The held-out "
      "split is not touched.";
  split.examples = {"fedclient data split --facilities site-a,site-b,site-c --alpha 0.3 -o parts"};
  split.options = {{.name = "dataset",
                    .kind = Kind::path,
                    .built_in = kDatasetDirectoryDefault,
                    .help = "Directory of the dataset.",
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
                   {.name = "shards",
                    .kind = Kind::integer,
                    .built_in = "0",
                    .help = "Instead of alpha: shards of sorted labels per facility.",
                    .minimum = 0,
                    .maximum = 1e6,
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
  return split;
}

Command check_command() {
  Command check;
  check.verb = "data check";
  check.summary = "Look through a dataset and compare it with its manifest";
  check.details =
      "Says what each split holds, or the first thing that is wrong: a file that differs from "
      "manifest.sha256, a truncated file, a value that is not finite, a token outside the "
      "vocabulary.";
  check.examples = {"fedclient data check parts/site-a"};
  check.arguments = {{.name = "dir", .help = "Directory of the dataset."}};
  check.options = {{.name = "data_plugin",
                    .kind = Kind::path,
                    .help = "Shared object that reads the dataset (fedqueue/data_plugin.h).",
                    .value_name = "FILE.so"}};
  check.reads = true;
  check.run = check_data;
  return check;
}

Command tokens_command() {
  Command tokens;
  tokens.verb = "data tokens";
  tokens.summary = "Make a dataset for language models from text files";
  tokens.details =
      "Every byte is a token, the vocabulary is 256. The end of each text is held out. A model for "
      "it: fedclient model init --model gpt --input tokens:128 --classes 256.";
  tokens.examples = {"fedclient data tokens book.txt letters.txt -o text"};
  tokens.arguments = {{.name = "text", .help = "Text files.", .repeated = true}};
  tokens.options = {{.name = "output",
                     .kind = Kind::path,
                     .built_in = "text",
                     .help = "Directory to write to.",
                     .short_form = 'o',
                     .value_name = "DIR",
                     .in_files = false},
                    {.name = "held_out",
                     .kind = Kind::real,
                     .built_in = "0.1",
                     .help = "Share of each text to judge models on.",
                     .minimum = 0,
                     .maximum = 0.9,
                     .in_files = false}};
  tokens.reads = true;
  tokens.run = make_tokens;
  return tokens;
}

}  // namespace

std::vector<Command> data_commands() {
  return {split_command(), check_command(), tokens_command()};
}

}  // namespace fedqueue
