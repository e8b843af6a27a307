#include <iostream>
#include <nlohmann/json.hpp>

#include "fedclient/trainer/commands.h"
#include "fedclient/trainer/network.h"
#include "fedclient/trainer/trainer.h"

namespace fedqueue {
namespace {

Result<int> model_init(const Settings& settings) {
  ModelInitOptions options;
  options.model = settings.text("model");
  options.classes = settings.integer("classes");
  options.rows = settings.integer("rows");
  options.columns = settings.integer("columns");
  options.seed = static_cast<std::uint64_t>(settings.integer("seed"));
  const std::filesystem::path output = settings.path("output");
  Result<InitialisedModel> made = init_model(options, output);
  if (!made) return made.error();
  if (settings.text("format") == "json") {
    std::cout << nlohmann::ordered_json{{"model", options.model},
                                        {"parameters", made->parameters},
                                        {"bytes", made->bytes},
                                        {"file", output.string()}}
                     .dump()
              << "\n";
  } else {
    std::cout << output.string() << ": " << options.model << ", " << made->parameters
              << " parameters, " << made->bytes << " bytes\n";
  }
  return 0;
}

OptionSpec seed_option(const char* what) {
  return {.name = "seed",
          .kind = Kind::integer,
          .built_in = "1",
          .help = what,
          .minimum = 0,
          .in_files = false};
}

}  // namespace

std::vector<Command> model_commands() {
  Command init;
  init.verb = "model init";
  init.summary = "Make the initial model of a run";
  init.details =
      "The file is given to `fedserver init --initial`. The same seed makes the same file.";
  init.examples = {"fedclient model init --model lenet5 -o initial.safetensors"};
  init.options = {{.name = "model",
                   .built_in = "mlp",
                   .help = "Architecture.",
                   .choices = model_names(),
                   .in_files = false},
                  {.name = "classes",
                   .kind = Kind::integer,
                   .built_in = "10",
                   .help = "Number of labels.",
                   .minimum = 2,
                   .maximum = 256,
                   .in_files = false},
                  {.name = "rows",
                   .kind = Kind::integer,
                   .built_in = "28",
                   .help = "Height of the images.",
                   .minimum = 1,
                   .maximum = 4096,
                   .in_files = false},
                  {.name = "columns",
                   .kind = Kind::integer,
                   .built_in = "28",
                   .help = "Width of the images.",
                   .minimum = 1,
                   .maximum = 4096,
                   .in_files = false},
                  seed_option("Seed of the initial parameters."),
                  {.name = "output",
                   .kind = Kind::path,
                   .built_in = "initial.safetensors",
                   .help = "File to write.",
                   .short_form = 'o',
                   .value_name = "FILE",
                   .in_files = false}};
  init.reads = true;
  init.run = model_init;
  return {init};
}

}  // namespace fedqueue
