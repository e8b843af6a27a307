// One launch of a job's processes at a simulated facility: the product's session, driven step by
// step in virtual time, with a trainer that is the caller's.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "fedclient/session/session.h"
#include "simulation/world/sending.h"
#include "simulation/world/witness.h"

namespace fedqueue::simulation {

struct LocalTask {
  FacilityId facility;
  AttemptId attempt;
  Segment segment;
  std::int64_t steps = 0;  // to be really done: fewer than the segment's when time ran out
  SharedBytes base;
  const std::map<std::string, std::string>& training;  // the run's settings
  Instant began{};                                     // with the first step
  double step_s = 0;
};

struct LocalOutcome {
  Bytes update;
  double loss = 0;
  std::int64_t samples = 0;
};

// What a facility computes, and how fast. Computing takes no virtual time by itself.
class SimTrainer {
 public:
  virtual ~SimTrainer() = default;
  // From the job's start to its first request: the launch of the ranks, loading of libraries.
  virtual double launch_s(const FacilityId& facility) = 0;
  // Of one local step in the segment that begins now.
  virtual double step_s(const FacilityId& facility, const Segment& segment) = 0;
  virtual Result<LocalOutcome> train(const LocalTask& task) = 0;
  // The server's word on an update has come, to the job that sent it or to the agent; once.
  virtual void settled(const FacilityId& /*facility*/, const OwnUpdate& /*update*/,
                       Disposition /*disposition*/) {}
  // What is really sent: honest facilities leave it alone.
  virtual void tempt(const FacilityId& /*facility*/, OwnUpdate& /*update*/) {}
};

struct JobSetup {
  FacilityId facility;
  JobRegistration registration;
  RetryPolicy retry;
  Duration reserve = std::chrono::seconds(30);
  std::optional<double> limit_left_s;  // of the allocation, at the start of the processes
};

class SimulatedJob {
 public:
  struct Ports {
    Clock& clock;
    Network& network;
    SimTrainer& trainer;
    Witness& witness;
    Prng& random;
    // An update is on the facility's disk until its answer is known.
    std::function<void(const OwnUpdate&)> keep;
    std::function<void(const UpdateId&, Disposition)> settle;
    // The processes end by themselves; the object may be destroyed within.
    std::function<void(int exit_code)> over;
  };

  SimulatedJob(JobSetup setup, Ports ports);
  // As by a kill: nothing is sent any more.
  ~SimulatedJob();
  SimulatedJob(const SimulatedJob&) = delete;
  SimulatedJob& operator=(const SimulatedJob&) = delete;

  // A signal that says: finish.
  void interrupt(const std::string& reason);
  [[nodiscard]] const Session* session() const { return session_ ? &*session_ : nullptr; }
  [[nodiscard]] const AttemptId& attempt() const { return setup_.registration.attempt; }

 private:
  void begin();
  void proceed();
  void enrol();
  void fetch();
  void train();
  void end_training(std::int64_t steps);
  // Training ends with the step at hand.
  void cut_training();
  void upload();
  void ask();
  void wait();
  void report();
  void failed(const Error& error);
  void plan_heartbeat();
  void beat();
  void call(Request request, Network::Done done);
  void later(Duration delay, const char* what, std::function<void()> work);

  JobSetup setup_;
  Ports ports_;
  std::optional<Session> session_;
  Instant started_at_{};
  SharedBytes model_;
  double step_s_ = 0;
  Instant training_since_{};
  bool training_ = false;
  Clock::Ticket training_end_ = 0;
  std::int64_t steps_done_ = 0;  // of the segments before
  std::optional<double> overhead_s_;
  OwnUpdate update_;
  std::unique_ptr<Fetching> fetching_;
  std::unique_ptr<Sending> sending_;
  Clock::Ticket waking_ = 0;
  Clock::Ticket beating_ = 0;
  Life life_ = new_life();
};

}  // namespace fedqueue::simulation
