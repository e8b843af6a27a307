// The simulated server's worker: does the engine's actions one after the other on the simulated
// disk, in the steps in which fedserver/reducer does them: write, sync, rename, sync the folder.
//
// Not thread-safe.
#pragma once

#include <deque>

#include "simulation/world/process.h"

namespace fedqueue::simulation {

class SimulatedReducer : public Effects {
 public:
  explicit SimulatedReducer(ServerProcess& process) : process_(process) {}
  void perform(const Action& action) override;
  // That are not done yet, with the one at hand.
  [[nodiscard]] std::size_t actions() const { return actions_.size(); }

 private:
  void next();
  void run(const StartReduce& action);
  void run(const LinkLatest& action);
  void run(const RemoveUpdate& action);
  void run(const RemoveModel& action);
  void run(const RemoveState& action);
  Result<ReduceFinished> reduce(const StartReduce& action);
  Status write(const std::string& file, const Bytes& content);

  ServerProcess& process_;
  std::deque<Action> actions_;
  bool busy_ = false;
};

}  // namespace fedqueue::simulation
