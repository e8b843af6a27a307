#include "simulation/queues/background.h"

#include <algorithm>
#include <cmath>

#include "core/base/assert.h"
#include "core/base/prng.h"

namespace fedqueue::simulation {
namespace {

constexpr double kSerial = 0.244;      // share of jobs on one node
constexpr double kPowerOfTwo = 0.576;  // share of the others
constexpr double kDay = 86400;

double clamped(double value, double low, double high) { return std::clamp(value, low, high); }

// log2 of the size: uniform in two stages, most of it in the lower one.
std::int64_t draw_nodes(std::int64_t nodes, Prng& random) {
  if (nodes == 1 || random.uniform() < kSerial) return 1;
  const double high = std::log2(static_cast<double>(nodes));
  const double low = std::min(0.8, high);
  const double middle = clamped(high - 2.5, low, high);
  const bool lower = random.uniform() < 0.86;
  const double from = lower ? low : middle;
  const double to = lower ? middle : high;
  double exponent = from + (to - from) * random.uniform();
  if (random.uniform() < kPowerOfTwo) exponent = std::round(exponent);
  return std::clamp<std::int64_t>(std::llround(std::exp2(exponent)), 1, nodes);
}

// e to a gamma variate: one for short jobs, one for long ones, larger jobs more often long.
double draw_run_s(std::int64_t nodes, Prng& random) {
  const double share_short = clamped(-0.0054 * static_cast<double>(nodes) + 0.78, 0, 1);
  const double exponent =
      random.uniform() < share_short ? 0.94 * random.gamma(4.2) : 0.03 * random.gamma(312);
  return std::exp(exponent);
}

// Busier by day: the rate relative to its mean at this time of day, from 0.4 to 1.6.
double rate_at(double at_s) {
  const double hour = std::fmod(at_s / 3600, 24);
  return 1 + 0.6 * std::sin((hour - 8) / 24 * 2 * std::acos(-1.0));
}

}  // namespace

std::vector<BackgroundJob> background_from_log(const SwfLog& log, double end_s,
                                               const BackgroundOptions& options) {
  FEDQUEUE_ASSERT(options.time_scale > 0 && options.nodes >= 1);
  const std::vector<SwfJob> jobs = usable_jobs(log);
  std::vector<BackgroundJob> result;
  if (jobs.empty()) return result;
  std::int64_t processors = options.processors;
  if (processors == 0) processors = log.processors_max.value_or(0);
  for (const SwfJob& job : jobs)
    if (options.processors == 0) processors = std::max(processors, job.processors);
  const double nodes_per_processor =
      static_cast<double>(options.nodes) / static_cast<double>(processors);
  const double first = jobs.front().submit_s;
  const double span = std::max(jobs.back().submit_s - first, 1.0);
  double turn = -std::fmod(options.offset_s, span);  // logged time of this turn's first job
  for (;; turn += span) {
    for (const SwfJob& job : jobs) {
      const double logged = turn + job.submit_s - first;
      if (logged < 0) continue;
      BackgroundJob background;
      background.submit_s = options.begin_s + logged * options.time_scale;
      if (background.submit_s > end_s) return result;
      const double nodes = std::ceil(static_cast<double>(job.processors) * nodes_per_processor);
      background.request.nodes =
          std::clamp<std::int64_t>(static_cast<std::int64_t>(nodes), 1, options.nodes);
      background.request.run_s = *job.run_s * options.time_scale;
      background.request.limit_s =
          std::max(job.requested_s.value_or(*job.run_s), *job.run_s) * options.time_scale;
      background.request.user = std::max<std::int64_t>(0, job.user);
      result.push_back(background);
    }
  }
}

std::vector<BackgroundJob> background_from_model(const LoadModel& model, double end_s,
                                                 const BackgroundOptions& options) {
  FEDQUEUE_ASSERT(model.load > 0 && options.time_scale > 0 && options.nodes >= 1);
  FEDQUEUE_ASSERT(model.overestimate_max >= 1 && model.users >= 1 && model.limit_max_s > 0);
  Prng random(model.seed);
  // The mean work of a job, from a sample of its own, gives the gap for the load asked for.
  double work = 0;
  constexpr int kSample = 20000;
  Prng sampling(model.seed ^ 0x5eedu);
  for (int i = 0; i < kSample; ++i) {
    const std::int64_t nodes = draw_nodes(options.nodes, sampling);
    work += static_cast<double>(nodes) * std::min(draw_run_s(nodes, sampling), model.limit_max_s);
  }
  const double gap_s = work / kSample / (model.load * static_cast<double>(options.nodes));
  // E[e^G] of the logarithmic gaps below, to keep the mean gap at gap_s.
  constexpr double kShape = 10.2303;
  constexpr double kScale = 0.0871;
  const double mean = std::pow(1 - kScale, -kShape);

  std::vector<BackgroundJob> result;
  double at_s = 0;  // modelled seconds since begin_s
  for (;;) {
    at_s += gap_s * std::exp(kScale * random.gamma(kShape)) / mean / rate_at(std::fmod(at_s, kDay));
    BackgroundJob job;
    job.submit_s = options.begin_s + at_s * options.time_scale;
    if (job.submit_s > end_s) return result;
    job.request.nodes = draw_nodes(options.nodes, random);
    const double run_s = std::min(draw_run_s(job.request.nodes, random), model.limit_max_s);
    const double factor = 1 + (model.overestimate_max - 1) * random.uniform();
    job.request.run_s = run_s * options.time_scale;
    job.request.limit_s = std::min(run_s * factor, model.limit_max_s) * options.time_scale;
    job.request.user =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(model.users)));
    result.push_back(job);
  }
}

}  // namespace fedqueue::simulation
