// How the driver and the engine bear many facilities: time per event and memory, with updates that
// are names alone. No network, no training; the journal is a file of which nothing is made durable,
// and a second server replays it.
//
// Not thread-safe. Times are real ones of this machine, so they differ from run to run.
#pragma once

#include <cstdint>
#include <string>

#include "aggregation/policy/policy_config.h"
#include "core/base/result.h"

namespace fedqueue::simulation {

struct ScaleOptions {
  int facilities = 1000;
  int rounds = 5;  // jobs of each facility
  PolicyConfig policy;
};

struct ScaleResult {
  int facilities = 0;
  std::int64_t events = 0;
  std::int64_t facts = 0;
  std::int64_t versions = 0;
  double seconds = 0;
  double microseconds_per_event = 0;
  double journal_bytes_per_event = 0;
  double journal_bytes_per_fact = 0;
  double replay_microseconds_per_fact = 0;  // reading, decoding and folding, by a second server
  double resident_bytes = 0;                // of this process, more than before
  double bytes_per_facility = 0;
};

// Every facility asks for a plan, registers its job, sends a heartbeat and an update, and leaves;
// so often as there are rounds. An answer that is not as expected is an error, and so is a replay
// that comes to another state.
[[nodiscard]] Result<ScaleResult> measure_scale(const ScaleOptions& options);

}  // namespace fedqueue::simulation
