#include "fedclient/models/script.h"

#include <torch/script.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <set>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "fedclient/models/model.h"

namespace fedqueue {
namespace {

constexpr std::size_t kFileMax = std::size_t{64} << 30;

const char* const kExport =
    "Export it in Python with torch.jit.script(model).save(\"model.pt\") or torch.jit.trace.";

// The first line that says something: LibTorch puts the interpreter's trace around it.
std::string reason(const std::exception& exception) {
  const std::string text = exception.what();
  const std::size_t error = text.rfind("RuntimeError: ");
  const std::string told = error == std::string::npos ? text : text.substr(error + 14);
  return told.substr(0, told.find('\n'));
}

Error unusable(const std::filesystem::path& file, const std::string& why) {
  return {Code::model_format, "load the TorchScript model " + file.string() + ": " + why, kExport};
}

std::string type_of(const torch::Tensor& tensor) { return c10::toString(tensor.scalar_type()); }

class ScriptModel final : public Model {
 public:
  explicit ScriptModel(torch::jit::Module module) : module_(std::move(module)) {}

  torch::Tensor forward(const torch::Tensor& inputs) override {
    const torch::jit::IValue out = module_.forward({inputs});
    TORCH_CHECK(out.isTensor(), "the model returns a ", out.tagKind(), " and not one tensor");
    return out.toTensor();
  }
  NamedTensors parameters() const override { return listed(true); }
  // Frozen parameters are part of the state too.
  NamedTensors buffers() const override {
    NamedTensors out = listed(false);
    for (const auto& item : module_.named_buffers()) {
      // Masks and other constants come with the file.
      const torch::ScalarType type = item.value.scalar_type();
      if (type == torch::kFloat || type == torch::kLong) out.emplace_back(item.name, item.value);
    }
    return out;
  }
  void train(bool on) override { module_.train(on); }
  void to(torch::Device device) override { module_.to(device); }

  // What makes it impossible to train, if anything.
  [[nodiscard]] std::optional<std::string> problem() const {
    bool trained = false;
    for (const auto& item : module_.named_parameters()) {
      if (item.value.scalar_type() != torch::kFloat) {
        return "the parameter " + item.name + " is " + type_of(item.value) +
               ", and only Float is trained";
      }
      trained = trained || item.value.requires_grad();
    }
    return trained ? std::nullopt
                   : std::optional<std::string>("it has no parameters that can be trained");
  }

 private:
  [[nodiscard]] NamedTensors listed(bool trained) const {
    NamedTensors out;
    std::set<const void*> seen;
    for (const auto& item : module_.named_parameters()) {
      if (item.value.requires_grad() == trained &&
          seen.insert(item.value.unsafeGetTensorImpl()).second)
        out.emplace_back(item.name, item.value);
    }
    return out;
  }

  mutable torch::jit::Module module_;
};

struct Loaded {
  std::unique_ptr<ScriptModel> model;
  std::string sha256;
};

Result<Loaded> load(const std::filesystem::path& file) {
  if (file.empty()) {
    return Error{Code::usage, "load the run's model: it is a TorchScript file, and none is named",
                 "Name the file that the run was made with: --model-file model.pt."};
  }
  const Result<std::string> bytes = read_file(file, kFileMax);
  if (!bytes) return bytes.error();
  Loaded loaded;
  loaded.sha256 = sha256_hex(*bytes);
  try {
    loaded.model = std::make_unique<ScriptModel>(torch::jit::load(file.string()));
  } catch (const std::exception&) {
    return unusable(file, "it is no TorchScript file (a state_dict or a pickled model is not one)");
  }
  if (const auto problem = loaded.model->problem()) return unusable(file, *problem);
  return loaded;
}

}  // namespace

Result<std::unique_ptr<Model>> load_script(const std::filesystem::path& file,
                                           const NetworkSpec& spec) {
  Result<Loaded> loaded = load(file);
  if (!loaded) return loaded.error();
  if (loaded->sha256 != spec.file_sha256) {
    return Error{Code::model_mismatch,
                 "load the TorchScript model " + file.string() + ": its SHA-256 begins with " +
                     loaded->sha256.substr(0, 12) + ", that of the run's with " +
                     spec.file_sha256.substr(0, 12),
                 "Copy the very file that the run was made with; a second export differs."};
  }
  return std::unique_ptr<Model>(std::move(loaded->model));
}

Result<NetworkSpec> describe_script(const std::filesystem::path& file, const InputShape& input) {
  Result<Loaded> loaded = load(file);
  if (!loaded) return loaded.error();
  std::vector<std::int64_t> sizes = input.sizes;
  sizes.insert(sizes.begin(), 2);
  NetworkSpec spec;
  spec.model = kTorchScript;
  spec.input = input;
  spec.file_sha256 = loaded->sha256;
  try {
    const torch::NoGradGuard no_gradient;
    loaded->model->train(false);
    const torch::Tensor scores = loaded->model->forward(
        torch::zeros(sizes, torch::dtype(input.tokens ? torch::kLong : torch::kFloat)));
    const std::int64_t wanted = input.tokens ? 3 : 2;
    if (scores.dim() != wanted || scores.size(0) != 2 ||
        (input.tokens && scores.size(1) != input.elements()) ||
        scores.scalar_type() != torch::kFloat) {
      std::vector<std::string> got;
      for (const std::int64_t size : scores.sizes()) got.push_back(std::to_string(size));
      return unusable(file, "of 2 samples of " + input.text() + " it makes " + type_of(scores) +
                                " [" + join(got, ", ") + "], and not Float " +
                                (input.tokens ? "[2, tokens, words]" : "[2, classes]"));
    }
    spec.classes = scores.size(-1);
  } catch (const std::exception& exception) {
    Error error =
        unusable(file, "it does not take samples of " + input.text() + ": " + reason(exception));
    error.cure = "Give the shape of one sample with --input.";
    return error;
  }
  if (Status status = check_spec(spec); !status) return status.error();
  return spec;
}

}  // namespace fedqueue
