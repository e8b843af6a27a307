#include "fedclient/trainer/checks.h"

#include <string>

#include "fedclient/data/augment.h"

namespace fedqueue {

Status check_start(const TrainingSettings& training, int ranks, const Dataset& dataset) {
  if (Status status = check_training(training, ranks); !status) return status;
  if (dataset.samples() == 0)
    return Error{Code::data, "start training: the dataset has no samples", "Check --dataset."};
  // Tokens are not cut into samples yet.
  if (!dataset.input.tokens) {
    if (Status status = check_batch(training, ranks, dataset); !status) return status;
  }
  if (Status status = check_augmentation(training.augmentation, dataset); !status) return status;
  if (training.sampling != Sampling::balanced || !dataset.input.tokens) return {};
  return Error{Code::usage, "start training: tokens have no labels to sample by",
               "Set sampling = shuffled or loss_weighted."};
}

Status check_batch(const TrainingSettings& training, int ranks, const Dataset& dataset) {
  if (training.global_batch(ranks) > dataset.samples()) {
    return Error{Code::data,
                 "start training: a batch of " + std::to_string(training.global_batch(ranks)) +
                     " samples is more than the dataset's " + std::to_string(dataset.samples()),
                 "Lower batch_size, or give this facility more data."};
  }
  return {};
}

}  // namespace fedqueue
