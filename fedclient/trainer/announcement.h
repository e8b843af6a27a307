// What rank 0 tells the other ranks before a segment.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/base/result.h"
#include "fedclient/trainer/network.h"
#include "fedclient/trainer/trainer.h"

namespace fedqueue {

// Plain bytes, since all ranks run this program.
struct Announcement {
  std::int32_t run = 0;       // 0: finish
  std::int32_t controls = 0;  // 1: a correction follows the model
  std::int64_t resumed = 0;   // 1: a trainer's state follows the model
  char model[32] = {};
  char input[96] = {};
  char file_sha256[72] = {};
  std::int64_t classes = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;
  std::int64_t base_version = 0;
  std::int64_t local_steps = 0;
  std::int64_t searches = 0;  // more than 0: no steps, but searches for the learning rate
  std::int64_t bucket_bytes = 0;
  double learning_rate = 0;
  TrainingSettings training;
};
static_assert(std::is_trivially_copyable_v<Announcement>);

[[nodiscard]] Announcement announce(const NetworkSpec& spec, const SegmentOrder& order,
                                    const TrainingSettings& training);
[[nodiscard]] NetworkSpec spec_of(const Announcement& announcement);

}  // namespace fedqueue
