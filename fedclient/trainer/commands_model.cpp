#include <iostream>
#include <nlohmann/json.hpp>

#include "fedclient/trainer/commands.h"
#include "fedclient/trainer/network.h"
#include "fedclient/trainer/trainer.h"

namespace fedqueue {
namespace {

Result<ModelInitOptions> init_options(const Settings& settings) {
  ModelInitOptions options;
  Result<InputShape> input = parse_input_shape(settings.text("input"));
  if (!input) return input.error();
  options.spec = {
      settings.text("model"),     settings.integer("classes"), std::move(*input),        "",
      settings.integer("layers"), settings.integer("heads"),   settings.integer("width")};
  options.seed = static_cast<std::uint64_t>(settings.integer("seed"));
  options.model_file = settings.path("model_file");
  options.weights = settings.path("weights");
  return options;
}

Result<int> model_init(const Settings& settings) {
  const Result<ModelInitOptions> options = init_options(settings);
  if (!options) return options.error();
  const std::filesystem::path output = settings.path("output");
  Result<InitialisedModel> made = init_model(*options, output);
  if (!made) return made.error();
  const NetworkSpec& spec = made->spec;
  if (settings.text("format") == "json") {
    std::cout << nlohmann::ordered_json{{"model", spec.model},
                                        {"input", spec.input.text()},
                                        {"classes", spec.classes},
                                        {"parameters", made->parameters},
                                        {"bytes", made->bytes},
                                        {"tensors_taken", made->tensors_taken},
                                        {"file", output.string()}}
                     .dump()
              << "\n";
  } else {
    std::cout << output.string() << ": " << spec.model << ", " << made->parameters
              << " parameters, " << made->bytes << " bytes; takes " << spec.input.text()
              << ", tells " << spec.classes << (spec.input.tokens ? " words" : " classes")
              << " apart\n";
    if (made->tensors_taken > 0) {
      std::cout << made->tensors_taken << " tensors come from " << options->weights.string()
                << "\n";
    }
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
  init.examples = {"fedclient model init --model lenet5 -o initial.safetensors",
                   "fedclient model init --model gpt --input tokens:128 --classes 256",
                   "fedclient model init --model-file model.pt --input 3x32x32 --weights "
                   "pretrained.safetensors"};
  init.options = {{.name = "model",
                   .built_in = "mlp",
                   .help = "Architecture.",
                   .choices = model_names(),
                   .in_files = false},
                  {.name = "model_file",
                   .kind = Kind::path,
                   .help = "Your own model as TorchScript, instead of --model.",
                   .value_name = "FILE",
                   .in_files = false},
                  {.name = "input",
                   .built_in = "1x28x28",
                   .help = "Shape of one sample: channels, rows and columns; 16 for vectors; "
                           "tokens:128 for text.",
                   .value_name = "SHAPE",
                   .in_files = false},
                  {.name = "classes",
                   .kind = Kind::integer,
                   .built_in = "10",
                   .help = "Labels, or words of the vocabulary; a TorchScript file says its own.",
                   .minimum = 2,
                   .maximum = 1000000,
                   .in_files = false},
                  {.name = "layers",
                   .kind = Kind::integer,
                   .built_in = "4",
                   .help = "Of gpt.",
                   .minimum = 1,
                   .in_files = false},
                  {.name = "heads",
                   .kind = Kind::integer,
                   .built_in = "4",
                   .help = "Of gpt, in each layer.",
                   .minimum = 1,
                   .in_files = false},
                  {.name = "width",
                   .kind = Kind::integer,
                   .built_in = "128",
                   .help = "Of gpt; a multiple of the heads.",
                   .minimum = 1,
                   .in_files = false},
                  {.name = "weights",
                   .kind = Kind::path,
                   .help = "Begin with these values (safetensors); what it lacks is drawn.",
                   .value_name = "FILE",
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
