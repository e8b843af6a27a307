#include "simulation/queues/waits.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/assert.h"

namespace fedqueue::simulation {

LogNormalWaits::LogNormalWaits(double mean_s, double sigma, std::uint64_t seed)
    : mu_(std::log(std::max(mean_s, mean_floor_s)) - sigma * sigma / 2),
      sigma_(sigma),
      random_(seed) {
  FEDQUEUE_ASSERT(sigma >= 0);
}

double LogNormalWaits::next_wait_s(double) { return std::exp(mu_ + sigma_ * random_.normal()); }

Result<std::unique_ptr<ReplayedWaits>> ReplayedWaits::create(const SwfLog& log,
                                                             const ReplayOptions& options) {
  FEDQUEUE_ASSERT(options.time_scale > 0);
  std::optional<JobClass> chosen = options.job_class;
  if (!chosen) {
    std::map<JobClass, std::size_t> frequency;
    for (const SwfJob& job : log.jobs)
      if (job.wait_s) ++frequency[class_of(job)];
    const auto most =
        std::max_element(frequency.begin(), frequency.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != frequency.end()) chosen = most->first;
  }
  std::vector<Logged> jobs;
  for (const SwfJob& job : log.jobs)
    if (chosen && job.wait_s && class_of(job) == *chosen)
      jobs.push_back({job.submit_s, *job.wait_s});
  if (jobs.empty()) {
    return Error{Code::data, "replay the log: no job of the wanted class has a known wait",
                 "Choose another class or log, or simulate the site (world = site), which makes "
                 "its own waits."};
  }
  const double first = jobs.front().submit_s;
  for (Logged& job : jobs) job.submit_s -= first;
  return std::unique_ptr<ReplayedWaits>(new ReplayedWaits(std::move(jobs), options));
}

ReplayedWaits::ReplayedWaits(std::vector<Logged> jobs, const ReplayOptions& options)
    : jobs_(std::move(jobs)), options_(options) {
  // The first job of the next turn comes as long after the last one as jobs came on average.
  const double last = jobs_.back().submit_s;
  const double gap = jobs_.size() > 1 ? last / static_cast<double>(jobs_.size() - 1) : 1;
  span_s_ = std::max(last + gap, 1.0);
}

double ReplayedWaits::next_wait_s(double submit_s) {
  const double logged = std::max(0.0, options_.offset_s + submit_s / options_.time_scale);
  const double within = std::fmod(logged, span_s_);
  auto found = std::lower_bound(jobs_.begin(), jobs_.end(), within,
                                [](const Logged& job, double at) { return job.submit_s < at; });
  if (found == jobs_.end()) found = jobs_.begin();
  return found->wait_s * options_.time_scale;
}

}  // namespace fedqueue::simulation
