#include "fedclient/trainer/announcement.h"

#include <cmath>
#include <cstring>
#include <string>

#include "core/base/assert.h"

namespace fedqueue {

Announcement announce(const NetworkSpec& spec, const SegmentOrder& order,
                      const TrainingSettings& training) {
  Announcement out;
  out.run = 1;
  out.training = training;
  FEDQUEUE_ASSERT(spec.model.size() < sizeof out.model);
  std::memcpy(out.model, spec.model.data(), spec.model.size());
  out.classes = spec.classes;
  out.rows = spec.rows;
  out.columns = spec.columns;
  out.base_version = order.base_version;
  out.local_steps = order.local_steps;
  out.learning_rate = order.learning_rate;
  return out;
}

NetworkSpec spec_of(const Announcement& announcement) {
  return {announcement.model, announcement.classes, announcement.rows, announcement.columns};
}

Status check_training(const TrainingSettings& training, int ranks) {
  if (training.batch_size < ranks) {
    return Error{Code::usage,
                 "start training: a batch of " + std::to_string(training.batch_size) +
                     " cannot be shared by " + std::to_string(ranks) + " ranks",
                 "Raise batch_size (it counts the samples of all ranks), or start fewer ranks."};
  }
  for (const double value : {training.momentum, training.weight_decay, training.proximal}) {
    if (!std::isfinite(value) || value < 0) {
      return Error{Code::usage,
                   "start training: momentum, weight_decay or proximal is negative or not a number",
                   "Look at the run's training settings."};
    }
  }
  return {};
}

Status check_controls(const TrainingSettings& training) {
  if (training.momentum == 0) return {};
  return Error{Code::usage,
               "train with control variates: they are estimated from the steps of plain SGD, and "
               "momentum is " +
                   std::to_string(training.momentum),
               "Set training.momentum = 0 in the run's configuration (a server optimiser can have "
               "momentum all the same)."};
}

}  // namespace fedqueue
