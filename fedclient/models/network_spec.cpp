#include "fedclient/models/network_spec.h"

#include <algorithm>
#include <optional>

#include "core/base/text.h"

namespace fedqueue {
namespace {

constexpr const char* kModelKey = "fedqueue.model";
constexpr const char* kClassesKey = "fedqueue.classes";
constexpr const char* kInputKey = "fedqueue.input";
constexpr const char* kFileKey = "fedqueue.sha256";
constexpr std::int64_t kClassesMax = 1000000;
constexpr std::int64_t kSideMax = 4096;

Error bad(const NetworkSpec& spec, const std::string& why, const std::string& cure) {
  return {Code::usage, "build the model " + spec.model + ": " + why, cure};
}

std::int64_t least_side(const std::string& model) {
  if (model == "lenet5") return 12;
  return model.starts_with("resnet") ? 8 : 4;
}

Status check_images(const NetworkSpec& spec) {
  const std::int64_t least = least_side(spec.model);
  if (!spec.input.is_image()) {
    return bad(spec, "it takes images, not " + spec.input.text(),
               "Give channels, rows and columns, as in --input 3x32x32.");
  }
  for (std::size_t i : {1u, 2u}) {
    if (spec.input.sizes[i] < least || spec.input.sizes[i] > kSideMax) {
      return bad(spec,
                 "images of " + spec.input.text() + ", it takes " + std::to_string(least) + " to " +
                     std::to_string(kSideMax) + " pixels a side",
                 "Choose another model, or scale the images.");
    }
  }
  return {};
}

Status check_gpt(const NetworkSpec& spec) {
  if (!spec.input.tokens) {
    return bad(spec, "it takes tokens, not " + spec.input.text(),
               "Give the length of the context, as in --input tokens:128.");
  }
  if (spec.layers < 1 || spec.heads < 1 || spec.width < 1 || spec.layers > 1000 ||
      spec.width > 65536 || spec.width % spec.heads != 0) {
    return bad(spec,
               std::to_string(spec.layers) + " layers, " + std::to_string(spec.heads) +
                   " heads and a width of " + std::to_string(spec.width) + " make no transformer",
               "The width must be a multiple of the heads.");
  }
  return {};
}

// The text of a metadata field; empty if it is not there.
std::string text_of(const std::map<std::string, std::string>& metadata, const std::string& key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

// "28x28" stands for one channel, as files of earlier releases say.
std::optional<InputShape> read_input(const std::string& text, const std::string& model) {
  Result<InputShape> shape = parse_input_shape(text);
  if (!shape) return std::nullopt;
  if (model != kTorchScript && !shape->tokens && shape->sizes.size() == 2)
    shape->sizes.insert(shape->sizes.begin(), 1);
  return *shape;
}

}  // namespace

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = {"mlp",      "lenet5",   "cnn",
                                                 "resnet18", "resnet50", "gpt"};
  return names;
}

Status check_spec(const NetworkSpec& spec) {
  const std::vector<std::string>& names = model_names();
  if (spec.classes < 2 || spec.classes > kClassesMax) {
    return bad(spec, std::to_string(spec.classes) + " classes, it takes 2 to 1,000,000",
               "Set --classes.");
  }
  if (spec.model == kTorchScript) return {};
  if (std::find(names.begin(), names.end(), spec.model) == names.end()) {
    const std::string guess = nearest(spec.model, names);
    return Error{Code::usage, "build a model: '" + spec.model + "' is not a built-in model",
                 (guess.empty() ? "" : "Did you mean " + guess + "? ") + "The models are " +
                     join(names, ", ") + "; your own comes with --model-file."};
  }
  if (spec.model == "gpt") return check_gpt(spec);
  if (spec.model == "mlp") {
    if (!spec.input.tokens) return {};
    return bad(spec, "it takes values, not tokens", "Use gpt, or a TorchScript model.");
  }
  return check_images(spec);
}

Status check_fit(const std::string& attempted, const NetworkSpec& spec, const Dataset& dataset) {
  if (dataset.input == spec.input && dataset.classes <= spec.classes) return {};
  return Error{Code::data,
               attempted + ": the dataset has " + dataset.text() + ", the model takes " +
                   std::to_string(spec.classes) +
                   (spec.input.tokens ? " words in " : " classes of ") + spec.input.text(),
               "Use the dataset this run is about (--dataset)."};
}

std::map<std::string, std::string> to_metadata(const NetworkSpec& spec) {
  std::map<std::string, std::string> metadata = {{kModelKey, spec.model},
                                                 {kClassesKey, std::to_string(spec.classes)},
                                                 {kInputKey, spec.input.text()}};
  if (!spec.file_sha256.empty()) metadata[kFileKey] = spec.file_sha256;
  if (spec.model == "gpt") {
    metadata["fedqueue.layers"] = std::to_string(spec.layers);
    metadata["fedqueue.heads"] = std::to_string(spec.heads);
    metadata["fedqueue.width"] = std::to_string(spec.width);
  }
  return metadata;
}

Result<NetworkSpec> spec_from_metadata(const std::map<std::string, std::string>& metadata) {
  NetworkSpec spec;
  spec.model = text_of(metadata, kModelKey);
  spec.file_sha256 = text_of(metadata, kFileKey);
  const auto classes = parse_integer(text_of(metadata, kClassesKey));
  const auto input = read_input(text_of(metadata, kInputKey), spec.model);
  bool whole = !spec.model.empty() && classes && input;
  if (whole && spec.model == "gpt") {
    const auto layers = parse_integer(text_of(metadata, "fedqueue.layers"));
    const auto heads = parse_integer(text_of(metadata, "fedqueue.heads"));
    const auto width = parse_integer(text_of(metadata, "fedqueue.width"));
    whole = layers && heads && width;
    if (whole) {
      spec.layers = *layers;
      spec.heads = *heads;
      spec.width = *width;
    }
  }
  if (!whole) {
    return Error{Code::model_mismatch,
                 "read the model's metadata: fedqueue.model, fedqueue.classes, fedqueue.input (as "
                 "1x28x28) or what the model needs beside them is missing or broken",
                 "Make the run's initial model with fedclient model init."};
  }
  spec.classes = *classes;
  spec.input = *input;
  if (Status status = check_spec(spec); !status) {
    Error error = status.error();
    error.code = Code::model_mismatch;
    return error;
  }
  return spec;
}

}  // namespace fedqueue
