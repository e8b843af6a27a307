// Who watches a simulated world: checkers, experiments, stories. What is shown is as it is at that
// moment; nothing may be changed by watching.
//
// Not thread-safe.
#pragma once

#include <string>

#include "fedclient/session/session.h"
#include "fedserver/driver/driver.h"
#include "simulation/world/algebra.h"
#include "simulation/world/disk.h"
#include "simulation/world/message.h"

namespace fedqueue::simulation {

// What a process of the server holds while it waits for its next turn.
struct ServerLoad {
  std::size_t events = 0;   // queued for that turn
  std::size_t uploads = 0;  // requests that send an update, until they are answered
  std::size_t writers = 0;  // of the blob store
  std::size_t actions = 0;  // that the engine asked for and that are not done
};

class Witness {
 public:
  virtual ~Witness() = default;

  // --- the server
  // A process is ready to serve; its engine is what the journal says.
  virtual void on_server_started(const Engine& /*engine*/, const SimulatedDisk& /*disk*/) {}
  // A process ends between two turns, so that its engine holds what the journal holds.
  virtual void on_server_ending(const Engine& /*engine*/) {}
  // A process ended in the middle of something.
  virtual void on_server_died(const std::string& /*where*/) {}
  // The power failed; the disk is what it left.
  virtual void on_power_failure(const SimulatedDisk& /*disk*/) {}
  // Durable facts, one by one.
  virtual void on_fact(const JournalRow& /*row*/, const Fact& /*fact*/, const Engine& /*engine*/) {}
  // A turn begins, and ends.
  virtual void on_load(const ServerLoad& /*load*/, const Engine& /*engine*/,
                       const SimulatedDisk& /*disk*/) {}
  virtual void on_turn(const Engine& /*engine*/) {}
  // The model that a reduction has made, before it is written.
  virtual void on_reduced(const StartReduce& /*action*/, const Bytes& /*current*/,
                          const std::vector<SharedBytes>& /*updates*/,
                          const std::vector<SharedBytes>& /*bases*/, const Bytes& /*model*/) {}
  // A reply is about to leave the server.
  virtual void on_reply(const FacilityId& /*peer*/, const Request& /*request*/,
                        const Reply& /*reply*/, const SimulatedDisk& /*disk*/) {}

  // --- facilities
  virtual void on_job_submitted(const FacilityId& /*facility*/, const std::string& /*token*/,
                                const std::string& /*job*/) {}
  virtual void on_job_over(const FacilityId& /*facility*/, const std::string& /*job*/,
                           const std::string& /*state*/) {}
  virtual void on_process_started(const FacilityId& /*facility*/, const AttemptId& /*attempt*/) {}
  virtual void on_process_ended(const FacilityId& /*facility*/, const AttemptId& /*attempt*/,
                                const Session* /*session*/) {}
  // A process sends something.
  virtual void on_session_sends(const FacilityId& /*facility*/, const Session& /*session*/,
                                Request::Kind /*kind*/) {}
  // A process has learnt that it was replaced.
  virtual void on_session_fenced(const FacilityId& /*facility*/, const Session& /*session*/) {}
  virtual void on_agent_over(const FacilityId& /*facility*/, int /*exit_code*/,
                             const std::string& /*reason*/) {}
};

}  // namespace fedqueue::simulation
