// The jobs of a facility; its agent is in facility_agent.cpp.
#include "simulation/world/facility.h"

#include <algorithm>
#include <utility>

namespace fedqueue::simulation {

Facility::Facility(Clock& clock, Network& network, FacilitySetup setup, BatchQueue& queue,
                   SimTrainer& trainer, Witness& witness, std::uint64_t seed, Faults faults)
    : clock_(clock),
      network_(network),
      setup_(std::move(setup)),
      trainer_(trainer),
      witness_(witness),
      faults_(faults),
      scheduler_(clock, setup_.id, queue, witness,
                 {[this](const ClusterJob& job) { launch(job); },
                  [this](const ClusterJob& job, bool lingers) { stop(job, lingers); }},
                 faults.scheduler),
      random_(seed),
      names_("/agent") {
  network_.set_path(setup_.id, setup_.path);
}

Facility::~Facility() { kill_agent(); }

JobRegistration Facility::registration_of(const ClusterJob& job, double limit_left_s) {
  JobRegistration registration;
  registration.attempt = make_attempt_id(std::to_string(job.number), job.restart_count);
  registration.nonce = std::to_string(random_.next());
  registration.plan_key = job.request.token;
  registration.queue.queue_wait_s = std::max(0.0, job.started_s - job.submitted_s);
  if (job.request.time_limit_s > 0) {
    registration.queue.time_limit_s = job.request.time_limit_s;
    registration.queue.remaining_s = limit_left_s;
  }
  return registration;
}

void Facility::launch(const ClusterJob& job) {
  const double now_s = to_seconds(clock_.now().time_since_epoch());
  const double left_s = std::max(0.0, job.request.time_limit_s - (now_s - job.started_s));
  JobSetup setup{
      setup_.id, registration_of(job, left_s), setup_.session_retry, setup_.session_reserve, {}};
  if (job.request.time_limit_s > 0) setup.limit_left_s = left_s;
  const std::uint64_t number = ++last_process_;
  const std::string token = job.request.token;
  SimulatedJob::Ports ports{
      clock_,
      network_,
      trainer_,
      witness_,
      random_,
      [this, token](const OwnUpdate& update) { left_[token].push_back(update); },
      [this, token](const UpdateId& id, Disposition disposition) {
        settle_update(token, id, disposition);
      },
      [this, number](int exit_code) { over(number, exit_code); }};
  processes_.push_back({number, job.number, job.restart_count, false, nullptr});
  processes_.back().running = std::make_unique<SimulatedJob>(std::move(setup), std::move(ports));
}

void Facility::settle_update(const std::string& token, const UpdateId& id,
                             Disposition disposition) {
  std::vector<OwnUpdate>& mine = left_[token];
  const auto found = std::find_if(mine.begin(), mine.end(),
                                  [&](const OwnUpdate& update) { return update.id == id; });
  if (found == mine.end()) return;  // somebody else was told before
  const OwnUpdate update = std::move(*found);
  mine.erase(found);
  trainer_.settled(setup_.id, update, disposition);
}

void Facility::end(std::uint64_t number) {
  processes_.remove_if([number](const Process& process) { return process.number == number; });
}

void Facility::stop(const ClusterJob& job, bool lingers) {
  std::vector<std::uint64_t> stopped;
  for (Process& process : processes_) {
    if (process.job != job.number || process.lingers) continue;
    process.lingers = lingers;
    stopped.push_back(process.number);
  }
  for (const std::uint64_t number : stopped) {
    if (lingers) {
      clock_.after(from_seconds(setup_.linger_s), "node gone", [this, number] { end(number); });
    } else {
      end(number);
    }
  }
}

void Facility::over(std::uint64_t number, int exit_code) {
  const auto process = std::find_if(processes_.begin(), processes_.end(),
                                    [number](const Process& one) { return one.number == number; });
  if (process == processes_.end()) return;
  const QueueJobId job = process->job;
  const bool lingers = process->lingers;
  clock_.tell(setup_.id.str(), "processes of job " + std::to_string(job) + " ended with " +
                                   std::to_string(exit_code));
  processes_.erase(process);
  // A job is over with its last launch; one of a failed node does not count.
  const bool others = std::any_of(processes_.begin(), processes_.end(), [job](const Process& one) {
    return one.job == job && !one.lingers;
  });
  if (!lingers && !others) scheduler_.processes_ended(job, exit_code == 0);
}

void Facility::interrupt_jobs(const std::string& reason) {
  std::vector<std::uint64_t> numbers;
  for (const Process& process : processes_) numbers.push_back(process.number);
  for (const std::uint64_t number : numbers) {
    const auto process =
        std::find_if(processes_.begin(), processes_.end(),
                     [number](const Process& one) { return one.number == number; });
    if (process != processes_.end()) process->running->interrupt(reason);
  }
}

void Facility::relaunch_job(QueueJobId number, bool first_goes_on) {
  const auto job = scheduler_.jobs().find(number);
  if (job == scheduler_.jobs().end() || job->second.phase != JobPhase::running) return;
  clock_.tell(setup_.id.str(), "job " + std::to_string(number) + " launches its ranks again");
  std::vector<std::uint64_t> first;
  for (const Process& process : processes_) {
    if (process.job == number && !process.lingers) first.push_back(process.number);
  }
  launch(job->second);
  if (first_goes_on) return;
  for (const std::uint64_t one : first) end(one);
}

std::size_t Facility::updates_left() const {
  std::size_t count = 0;
  for (const auto& [token, updates] : left_) count += updates.size();
  return count;
}

}  // namespace fedqueue::simulation
