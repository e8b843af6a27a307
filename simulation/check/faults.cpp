#include "simulation/check/faults.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace fedqueue::simulation {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

}  // namespace

Faults::Faults(const Scenario& scenario)
    : rates_(scenario.rates),
      disk_bytes_(scenario.model_floats * sizeof(float)),
      network_(stream(scenario.seed, "network")),
      disk_(stream(scenario.seed, "disk")),
      commit_(stream(scenario.seed, "commit")),
      scheduler_(stream(scenario.seed, "scheduler")),
      agent_(stream(scenario.seed, "agent")),
      times_(stream(scenario.seed, "times")),
      jobs_(stream(scenario.seed, "jobs")),
      power_(stream(scenario.seed, "power")) {}

DiskFate Faults::fate(DiskFaults::Operation operation, const std::string&) {
  DiskFate fate;
  if (!active_ || !disk_allowed_) return fate;
  if (chance(disk_, rates_.die_at_disk)) {
    (disk_.uniform() < 0.5 ? fate.die_before : fate.die_after) = true;
  }
  if (chance(disk_, rates_.disk_fails)) fate.fail = Code::storage;
  if (operation == DiskFaults::Operation::write && chance(disk_, rates_.short_writes)) {
    fate.bytes_most = 1 + disk_.below(16);
  }
  return fate;
}

NetworkFate Faults::fate(const FacilityId&, bool upward, Request::Kind kind) {
  NetworkFate fate;
  if (!active_) return fate;
  fate.lost = chance(network_, rates_.lost);
  fate.doubled = upward && chance(network_, rates_.doubled);
  if (chance(network_, rates_.delayed)) fate.delay_s = exponential(network_, rates_.delay_mean_s);
  // Transfers are long, so that they are what is cut.
  const bool transfer = upward ? kind == Request::Kind::put : kind == Request::Kind::model;
  if (chance(network_, transfer ? rates_.cut : rates_.cut / 10)) fate.cut = network_.uniform();
  return fate;
}

SchedulerFate Faults::fate(const FacilityId&, SchedulerFaults::Command command) {
  SchedulerFate fate;
  if (!active_) return fate;
  if (chance(scheduler_, rates_.command_slow)) fate.took_s = 30;
  switch (command) {
    case SchedulerFaults::Command::submit:
      fate.shown_after_s = rates_.shown_late_s > 0 ? scheduler_.uniform() * rates_.shown_late_s : 0;
      if (chance(scheduler_, rates_.submit_limit)) {
        fate.fail = Code::scheduler_limit;
      } else if (chance(scheduler_, rates_.submit_fails)) {
        fate.fail = Code::try_again;
        fate.works_all_the_same = chance(scheduler_, rates_.submit_fails_though_done);
      }
      return fate;
    case SchedulerFaults::Command::poll:
    case SchedulerFaults::Command::find:
    case SchedulerFaults::Command::outcome:
      fate.hides = chance(scheduler_, rates_.hides);
      break;
    default:
      break;
  }
  if (chance(scheduler_, rates_.command_fails)) {
    fate.fail = Code::scheduler;
    fate.works_all_the_same = scheduler_.uniform() < 0.5;
  }
  return fate;
}

AgentFaults::Fate Faults::fate(const FacilityId& id, AgentMachine::Step) {
  if (!active_ || !chance(agent_, rates_.agent_dies)) return AgentFaults::Fate::good;
  const double delay_s = exponential(agent_, 30);
  world_->clock().after(from_seconds(delay_s), "agent again",
                        [this, id] { world_->facilities().at(id)->start_agent(); });
  return agent_.uniform() < 0.5 ? AgentFaults::Fate::die_before : AgentFaults::Fate::die_after;
}

bool Faults::repeats_action() { return active_ && chance(commit_, rates_.repeated_actions); }

SimulatedJournal::Fate Faults::commit() {
  if (!active_ || !disk_allowed_ || !chance(commit_, rates_.die_at_commit)) {
    return SimulatedJournal::Fate::good;
  }
  return commit_.uniform() < 0.5 ? SimulatedJournal::Fate::die_before
                                 : SimulatedJournal::Fate::die_after;
}

// --- faults that come by themselves

void Faults::every(double gap_s, const char* what, std::function<void()> fault) {
  if (gap_s <= 0) return;
  world_->clock().after(from_seconds(exponential(times_, gap_s)), what,
                        [this, gap_s, what, fault = std::move(fault)] {
                          if (!active_) return;
                          fault();
                          every(gap_s, what, fault);
                        });
}

void Faults::begin(World& world, std::map<FacilityId, DrawnQueue*> queues) {
  world_ = &world;
  queues_ = std::move(queues);
  every(rates_.kill_gap_s, "kill server", [this] { end_server(); });
  every(rates_.server_jump_gap_s, "server jumps",
        [this] { world_->server().jump(from_seconds(exponential(times_, 100))); });
  every(rates_.disk_full_gap_s, "disk full", [this] {
    world_->server().disk().set_capacity(1 + times_.below(4 * disk_bytes_));
    world_->clock().after(from_seconds(exponential(times_, rates_.disk_full_mean_s)), "disk free",
                          [this] { world_->server().disk().set_capacity(0); });
  });
  every(rates_.disturbed_gap_s, "disturb job", [this] { disturb_a_job(); });
  every(rates_.relaunched_gap_s, "relaunch job", [this] { relaunch_a_job(); });
  every(rates_.signal_gap_s, "signal jobs",
        [this] { some_facility(jobs_)->interrupt_jobs("signal USR1"); });
  every(rates_.agent_kill_gap_s, "kill agent", [this] {
    Facility* facility = some_facility(times_);
    if (!facility->agent_running()) return;
    facility->kill_agent();
    world_->clock().after(from_seconds(exponential(times_, 30)), "agent again",
                          [facility] { facility->start_agent(); });
  });
  every(rates_.agent_jump_gap_s, "agent jumps",
        [this] { some_facility(times_)->jump(from_seconds(exponential(times_, 600))); });
}

Facility* Faults::some_facility(Prng& random) {
  auto facility = world_->facilities().begin();
  std::advance(facility, static_cast<std::ptrdiff_t>(random.below(world_->facilities().size())));
  return facility->second.get();
}

void Faults::end_server() {
  if (!world_->server().running()) return;
  if (chance(times_, rates_.power_share)) {
    world_->server().fail_power(power_);
  } else {
    world_->server().kill();
  }
  restart_later();
}

void Faults::server_died() {
  if (chance(times_, rates_.power_share)) world_->server().fail_power(power_);
  restart_later();
}

void Faults::restart_later() {
  const double down_s = active_ ? exponential(times_, rates_.down_mean_s) : 1;
  world_->clock().after(from_seconds(down_s), "restart", [this] { world_->server().start(); });
}

void Faults::disturb_a_job() {
  Facility* facility = some_facility(jobs_);
  DrawnQueue* queue = queues_.at(facility->setup().id);
  const std::vector<QueueJobId> running = queue->running();
  if (running.empty()) return;
  constexpr QueueChange::Kind kinds[] = {
      QueueChange::Kind::requeued, QueueChange::Kind::node_failed, QueueChange::Kind::preempted,
      QueueChange::Kind::cancelled};
  queue->disturb(running[jobs_.below(running.size())], kinds[jobs_.below(std::size(kinds))],
                 to_seconds(world_->clock().now().time_since_epoch()));
  facility->scheduler().advance();
}

void Faults::relaunch_a_job() {
  Facility* facility = some_facility(jobs_);
  const std::vector<QueueJobId> running = queues_.at(facility->setup().id)->running();
  if (running.empty()) return;
  facility->relaunch_job(running[jobs_.below(running.size())], jobs_.uniform() < 0.5);
}

// --- queues

FaultyQueue::FaultyQueue(const ScenarioFacility& facility, const FaultRates& rates,
                         const Faults& faults, std::uint64_t seed)
    : DrawnQueue(
          [facility, stuck = rates.never_starts, &faults, waits = Prng(seed)](double) mutable {
            const double wait_s = log_normal(waits, facility.wait_median_s, facility.wait_sigma);
            return faults.active() && chance(waits, stuck) ? never : wait_s;
          }),
      absurd_(rates.absurd_estimates),
      estimates_(stream_seed(seed, "estimates")) {}

std::optional<double> FaultyQueue::expected_wait_s(QueueJobId, double) const {
  if (!chance(estimates_, absurd_)) return std::nullopt;
  constexpr double absurd[] = {0, 1, 1e9, 1e15, 31536000};
  return absurd[estimates_.below(std::size(absurd))];
}

}  // namespace fedqueue::simulation
