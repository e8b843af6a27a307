#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "fedclient/data/augment.h"
#include "fedclient/models/script.h"
#include "fedclient/trainer/model_file.h"
#include "fedclient/trainer/network.h"
#include "fedclient/trainer/trainer.h"

namespace fedqueue {
namespace {

constexpr std::int64_t kEvaluationBatch = 500;
constexpr std::int64_t kScoresMax = std::int64_t{1} << 26;  // of a batch, for large vocabularies

}  // namespace

Result<EvaluationResult> evaluate(const std::filesystem::path& model, const Dataset& whole,
                                  const NetworkOptions& options,
                                  const Normalization& normalization) {
  const std::string attempted = "evaluate " + model.string();
  Result<tensor::Manifest> manifest = read_manifest(model);
  if (!manifest) return manifest.error();
  Result<NetworkSpec> spec = spec_from_metadata(manifest->metadata);
  if (!spec) return spec.error();
  if (whole.samples() == 0)
    return Error{Code::data, attempted + ": the dataset has no samples", "Check --dataset."};
  Dataset dataset = whole;
  if (Status status = dataset.cut_for(spec->input); !status) return status.error();
  if (Status status = check_fit(attempted, *spec, dataset); !status) return status.error();
  const Augmentation augmentation{.normalization = normalization};
  if (Status status = check_augmentation(augmentation, dataset); !status)
    return within(attempted, status.error());
  Result<std::unique_ptr<Network>> network = Network::create(*spec, options);
  if (!network) return network.error();
  Result<std::vector<std::byte>> state = read_state(model, (*network)->manifest());
  if (!state) return state.error();
  if (Status status = (*network)->load(*state); !status) return status.error();

  const std::int64_t scores = spec->classes * (spec->input.tokens ? spec->input.elements() : 1);
  const auto step = std::clamp(kScoresMax / scores, std::int64_t{1}, kEvaluationBatch);
  EvaluationTotals sum;
  std::vector<std::int64_t> indices;
  for (std::int64_t begin = 0; begin < dataset.samples(); begin += step) {
    indices.resize(static_cast<std::size_t>(std::min(step, dataset.samples() - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    Result<Batch> batch = read_batch(dataset, indices);
    if (!batch) return batch.error();
    normalize(normalization, *batch);
    Result<EvaluationTotals> part = (*network)->evaluate(*batch);
    if (!part) return part.error();
    sum.loss_sum += part->loss_sum;
    sum.correct += part->correct;
    sum.targets += part->targets;
  }
  EvaluationResult result;
  result.samples = dataset.samples();
  result.accuracy = static_cast<double>(sum.correct) / static_cast<double>(sum.targets);
  result.loss = sum.loss_sum / static_cast<double>(sum.targets);
  if (!std::isfinite(result.loss)) {
    return Error{Code::not_finite, attempted + ": the loss is not a finite number",
                 "The model holds NaN or Inf; roll the run back to an earlier version."};
  }
  return result;
}

Result<InitialisedModel> init_model(const ModelInitOptions& options,
                                    const std::filesystem::path& output) {
  NetworkSpec spec = options.spec;
  if (!options.model_file.empty()) {
    Result<NetworkSpec> described = describe_script(options.model_file, spec.input);
    if (!described) return described.error();
    spec = std::move(*described);
  }
  NetworkOptions network_options;
  network_options.seed = options.seed;
  network_options.model_file = options.model_file;
  Result<std::unique_ptr<Network>> network = Network::create(spec, network_options);
  if (!network) return network.error();
  const tensor::Manifest& layout = (*network)->manifest();
  std::vector<std::byte> state(layout.data_bytes);
  if (Status status = (*network)->store(state); !status) return status.error();
  InitialisedModel made{spec, (*network)->parameters(), layout.data_bytes};
  if (!options.weights.empty()) {
    const Result<std::size_t> taken = read_matching(options.weights, layout, state);
    if (!taken) return taken.error();
    made.tensors_taken = *taken;
  }
  if (Status status = write_state(output, layout, state); !status) return status.error();
  return made;
}

}  // namespace fedqueue
