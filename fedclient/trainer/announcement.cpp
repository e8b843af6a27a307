#include "fedclient/trainer/announcement.h"

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

}  // namespace fedqueue
