#include "core/base/text.h"
#include "fedclient/trainer/network.h"

namespace fedqueue {
namespace {

constexpr const char* kModelKey = "fedqueue.model";
constexpr const char* kClassesKey = "fedqueue.classes";
constexpr const char* kInputKey = "fedqueue.input";

}  // namespace

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = {"mlp", "lenet5", "cnn"};
  return names;
}

Status check_spec(const NetworkSpec& spec) {
  bool known = false;
  for (const std::string& name : model_names()) known = known || name == spec.model;
  if (!known) {
    const std::string guess = nearest(spec.model, model_names());
    return Error{Code::usage, "build a model: '" + spec.model + "' is not a built-in model",
                 (guess.empty() ? "" : "Did you mean " + guess + "? ") + "The models are " +
                     join(model_names(), ", ") + "."};
  }
  const std::int64_t side_least = spec.model == "lenet5" ? 12 : 4;
  if (spec.rows < side_least || spec.columns < side_least || spec.rows > 4096 ||
      spec.columns > 4096) {
    return Error{Code::usage,
                 "build the model " + spec.model + ": images of " + std::to_string(spec.rows) +
                     "x" + std::to_string(spec.columns) + " pixels, it takes " +
                     std::to_string(side_least) + " to 4096 pixels a side",
                 "Choose another model, or scale the images."};
  }
  if (spec.classes < 2 || spec.classes > 256) {
    return Error{Code::usage,
                 "build the model " + spec.model + ": " + std::to_string(spec.classes) +
                     " classes, it takes 2 to 256",
                 "Set --classes."};
  }
  return {};
}

std::map<std::string, std::string> to_metadata(const NetworkSpec& spec) {
  return {{kModelKey, spec.model},
          {kClassesKey, std::to_string(spec.classes)},
          {kInputKey, std::to_string(spec.rows) + "x" + std::to_string(spec.columns)}};
}

Result<NetworkSpec> spec_from_metadata(const std::map<std::string, std::string>& metadata) {
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  NetworkSpec spec;
  spec.model = text(kModelKey);
  const std::vector<std::string> sides = split(text(kInputKey), 'x');
  const auto classes = parse_integer(text(kClassesKey));
  const auto rows = sides.size() == 2 ? parse_integer(sides[0]) : std::nullopt;
  const auto columns = sides.size() == 2 ? parse_integer(sides[1]) : std::nullopt;
  if (spec.model.empty() || !classes || !rows || !columns) {
    return Error{Code::model_mismatch,
                 "read the model's metadata: fedqueue.model, fedqueue.classes or fedqueue.input "
                 "(as 28x28) is missing or broken",
                 "Make the run's initial model with fedclient model init."};
  }
  spec.classes = *classes;
  spec.rows = *rows;
  spec.columns = *columns;
  if (Status status = check_spec(spec); !status) {
    Error error = status.error();
    error.code = Code::model_mismatch;
    return error;
  }
  return spec;
}

}  // namespace fedqueue
