// One world in which policies are compared: the queues, machines, networks, data and model of its
// facilities, and what counts as reaching the target.
//
// A list gives one value per facility; its last value stands for all that follow. Times are virtual
// seconds.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/result.h"

namespace fedqueue::simulation {

enum class WorldKind { lognormal, fixed, off, replay, site };

struct Setting {
  std::string name;

  // Queues.
  WorldKind world = WorldKind::lognormal;
  std::vector<double> queue_mean_s{0.9};  // lognormal: rho
  double queue_sigma = 0.4;               // lognormal
  std::vector<double> queue_fixed_s{2};   // fixed
  std::string trace;                      // replay, and site with background = trace: an SWF file
  double time_scale = 0.01;               // replay, site: virtual seconds per logged second
  std::int64_t site_nodes = 64;
  std::int64_t job_nodes = 1;        // that each of our jobs asks for
  std::string background = "model";  // site: model | trace
  double site_load = 0.9;            // of the model
  double site_warm_up_s = 2000;      // virtual time that the site runs before we come
  std::optional<int> eligible_jobs_max;
  std::optional<int> submitted_jobs_max;
  std::optional<double> limit_max_s;
  bool early_submission = true;  // false: the site allows one job of ours at a time
  double job_time_limit_s = 40;

  // Machines and networks.
  int facilities = 4;
  std::vector<double> step_s{0.1};
  double step_jitter = 0.05;            // sigma of the log of each segment's speed
  std::vector<double> launch_s{0.2};    // from the start of a job to its first request
  std::vector<double> latency_s{0.02};  // one way
  std::vector<double> bandwidth_bytes_per_s{12.5e6};
  double failure_rate = 0;  // share of jobs that die at a random moment of their time limit
  double poll_s = 1;        // how often an agent looks at its queue

  // Training.
  std::string model = "mlp";
  std::string division = "dirichlet";  // iid | dirichlet | shards
  double alpha = 0.3;
  int shards = 2;
  std::int64_t samples_max = 0;
  std::int64_t batch = 32;
  double momentum = 0;
  std::int64_t evaluation_samples = 2000;

  // What is measured.
  double horizon_s = 300;
  double evaluation_interval_s = 2;
  double target = 0.8;                // accuracy that the ratios are about
  std::vector<double> targets_shown;  // further ones in the tables

  [[nodiscard]] Status validate() const;
  // True where waits or other people's jobs come from `trace`.
  [[nodiscard]] bool reads_trace() const;
  // Sets one value from text; an unknown name names the nearest.
  [[nodiscard]] Status set(std::string_view name, std::string_view value);
  // Every option as `set` reads it.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> options() const;
};

[[nodiscard]] const char* to_text(WorldKind world);

// The facility's own value of a list. REQUIRES: not empty.
[[nodiscard]] double value_for(const std::vector<double>& list, int facility);

}  // namespace fedqueue::simulation
