// How long the next job waits in a queue that is not simulated: drawn, fixed, none, or replayed
// from a log.
//
// Promises: waits are finite and ≥ 0; the same seed and the same questions give the same waits on
// every platform. A source is asked in the order of the submissions.
// Source: the log-normal simulator of the FedQueue reference code (arXiv 2605.02125): with mean rho
// and shape sigma, wait = exp(N(ln(rho) − sigma²/2, sigma²)), so that the mean is rho whatever
// sigma is. Replay: a job that we submit waits as long as the next logged job of its class did.
//
// Not thread-safe; distinct objects are independent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/prng.h"
#include "core/base/result.h"
#include "simulation/queues/swf.h"

namespace fedqueue::simulation {

class WaitSource {
 public:
  virtual ~WaitSource() = default;
  // The wait of a job that is submitted at `submit_s` (virtual seconds, not decreasing).
  [[nodiscard]] virtual double next_wait_s(double submit_s) = 0;
};

// Every job starts at once.
class NoWaits final : public WaitSource {
 public:
  [[nodiscard]] double next_wait_s(double) override { return 0; }
};

class FixedWaits final : public WaitSource {
 public:
  explicit FixedWaits(double wait_s) : wait_s_(wait_s < 0 ? 0 : wait_s) {}
  [[nodiscard]] double next_wait_s(double) override { return wait_s_; }

 private:
  double wait_s_;
};

class LogNormalWaits final : public WaitSource {
 public:
  static constexpr double mean_floor_s = 1e-6;
  // REQUIRES: sigma ≥ 0. The mean is raised to the floor.
  LogNormalWaits(double mean_s, double sigma, std::uint64_t seed);
  [[nodiscard]] double next_wait_s(double) override;
  [[nodiscard]] double mu() const { return mu_; }

 private:
  double mu_;
  double sigma_;
  Prng random_;
};

struct ReplayOptions {
  // Virtual seconds per logged second: a run with short rounds shrinks the log's hours to fit.
  double time_scale = 1;
  // Where in the log virtual time 0 lies, in logged seconds from its first job.
  double offset_s = 0;
  // Only jobs of this class; nothing: the log's most frequent one.
  std::optional<JobClass> job_class;
};

class ReplayedWaits final : public WaitSource {
 public:
  // Fails when no job of the class has a known wait.
  static Result<std::unique_ptr<ReplayedWaits>> create(const SwfLog& log,
                                                       const ReplayOptions& options);
  // Of the first job logged at or after that time; after the log's end it begins anew.
  [[nodiscard]] double next_wait_s(double submit_s) override;
  [[nodiscard]] std::size_t jobs() const { return jobs_.size(); }
  [[nodiscard]] double span_s() const { return span_s_; }  // logged seconds until it begins anew

 private:
  struct Logged {
    double submit_s;
    double wait_s;
  };
  ReplayedWaits(std::vector<Logged> jobs, const ReplayOptions& options);

  std::vector<Logged> jobs_;  // submit times relative to the first
  double span_s_ = 0;
  ReplayOptions options_;
};

}  // namespace fedqueue::simulation
