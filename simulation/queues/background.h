// Other people's jobs for a simulated site: from a log, or from a model of one.
//
// The model draws sizes, run times and arrivals in the manner of Lublin and Feitelson: some serial
// jobs, many powers of two, run times from a mixture of two gamma distributions whose weight
// depends on the size, gamma-distributed logarithms of gaps with a daily cycle. The gaps are then
// stretched so that the offered load is what was asked for, since the load decides how long one
// waits. Users ask for more time than they need.
// Source: Lublin and Feitelson, "The workload on parallel supercomputers" (2003); the constants of
// the batch class.
//
// Promises: the same arguments give the same jobs on every platform; jobs come in the order of
// their submission and none asks for more nodes than the site has.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "simulation/queues/site.h"
#include "simulation/queues/swf.h"

namespace fedqueue::simulation {

struct BackgroundOptions {
  std::int64_t nodes = 1;       // of the site
  double time_scale = 1;        // virtual seconds per logged or modelled second
  double begin_s = 0;           // virtual time of the first submission; before 0 to warm up
  double offset_s = 0;          // a log: logged seconds from its first job to begin_s
  std::int64_t processors = 0;  // a log: of its machine, scaled to `nodes`; 0: its own header's
};

// The log's jobs from the offset on, as often as it takes to reach `end_s` (virtual).
[[nodiscard]] std::vector<BackgroundJob> background_from_log(const SwfLog& log, double end_s,
                                                             const BackgroundOptions& options);

struct LoadModel {
  double load = 0.9;            // offered node-seconds per node and second; > 0
  double overestimate_max = 5;  // requested over real run time: uniform in 1 … this
  double limit_max_s = 172800;  // modelled seconds; longer jobs are cut
  std::int64_t users = 40;
  std::uint64_t seed = 1;
};

[[nodiscard]] std::vector<BackgroundJob> background_from_model(const LoadModel& model, double end_s,
                                                               const BackgroundOptions& options);

}  // namespace fedqueue::simulation
