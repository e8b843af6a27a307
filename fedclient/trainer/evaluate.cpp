#include <algorithm>
#include <cmath>
#include <utility>

#include "fedclient/trainer/model_file.h"
#include "fedclient/trainer/network.h"
#include "fedclient/trainer/trainer.h"

namespace fedqueue {
namespace {

constexpr std::int64_t kEvaluationBatch = 500;

}  // namespace

Result<EvaluationResult> evaluate(const std::filesystem::path& model_file, const Dataset& dataset,
                                  const std::string& device, int threads) {
  Result<tensor::Manifest> manifest = read_manifest(model_file);
  if (!manifest) return manifest.error();
  Result<NetworkSpec> spec = spec_from_metadata(manifest->metadata);
  if (!spec) return spec.error();
  if (dataset.samples() == 0 || dataset.rows != spec->rows || dataset.columns != spec->columns ||
      dataset.classes > spec->classes) {
    return Error{Code::data,
                 "evaluate " + model_file.string() + ": the dataset has " +
                     std::to_string(dataset.classes) + " classes of " +
                     std::to_string(dataset.rows) + "x" + std::to_string(dataset.columns) +
                     " pixels, which is not what the model was made for",
                 "Use the held-out split of the run's dataset (--dataset)."};
  }
  NetworkOptions options;
  options.device = device;
  options.threads = threads;
  Result<std::unique_ptr<Network>> network = Network::create(*spec, options);
  if (!network) return network.error();
  Result<std::vector<std::byte>> state = read_state(model_file, (*network)->manifest());
  if (!state) return state.error();
  if (Status status = (*network)->load(*state); !status) return status.error();

  EvaluationTotals sum;
  for (std::int64_t begin = 0; begin < dataset.samples(); begin += kEvaluationBatch) {
    const std::int64_t end = std::min(begin + kEvaluationBatch, dataset.samples());
    Result<EvaluationTotals> part = (*network)->evaluate(dataset, begin, end);
    if (!part) return part.error();
    sum.loss_sum += part->loss_sum;
    sum.correct += part->correct;
    sum.samples += part->samples;
  }
  EvaluationResult result;
  result.samples = sum.samples;
  result.accuracy = static_cast<double>(sum.correct) / static_cast<double>(sum.samples);
  result.loss = sum.loss_sum / static_cast<double>(sum.samples);
  if (!std::isfinite(result.loss)) {
    return Error{Code::not_finite,
                 "evaluate " + model_file.string() + ": the loss is not a finite number",
                 "The model holds NaN or Inf; roll the run back to an earlier version."};
  }
  return result;
}

Result<InitialisedModel> init_model(const ModelInitOptions& options,
                                    const std::filesystem::path& output) {
  NetworkOptions network_options;
  network_options.seed = options.seed;
  Result<std::unique_ptr<Network>> network = Network::create(
      {options.model, options.classes, options.rows, options.columns}, network_options);
  if (!network) return network.error();
  const tensor::Manifest& layout = (*network)->manifest();
  std::vector<std::byte> state(layout.data_bytes);
  if (Status status = (*network)->store(state); !status) return status.error();
  if (Status status = write_state(output, layout, state); !status) return status.error();
  return InitialisedModel{(*network)->parameters(), layout.data_bytes};
}

}  // namespace fedqueue
