// Watches a simulated federation and counts what a comparison reports: node time used and wasted,
// updates and their staleness, bytes, waits, and what every facility did when.
//
// Node time is wasted unless it was spent in local steps behind an update that was counted.
//
// Not thread-safe; one recorder watches one world.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulation/clock/clock.h"
#include "simulation/experiment/cell.h"
#include "simulation/world/job.h"
#include "simulation/world/witness.h"

namespace fedqueue::simulation {

class Recorder final : public Witness {
 public:
  // The newest `models_kept` published models can be asked for.
  Recorder(std::map<FacilityId, int> facilities, std::int64_t nodes_per_job, Bytes initial,
           std::size_t models_kept = 1);

  // Before the world starts. The clock outlives the recorder's use.
  void watch(Clock& clock) { clock_ = &clock; }

  // A segment was trained; called by the trainer.
  void trained(const LocalTask& task);

  // The newest published models, oldest first; at least one.
  [[nodiscard]] const std::deque<Bytes>& models() const { return models_; }
  [[nodiscard]] Version version() const { return version_; }
  // How the run ended, if it did.
  [[nodiscard]] const std::string& finished() const { return finished_; }

  // Of our allocations up to now; those that still run as far as they got.
  [[nodiscard]] double node_seconds() const;

  // Everything but the curve, up to now. Allocations that still run are counted as far as they got.
  void fill(CellResult& result, bool with_spans);

  void on_fact(const JournalRow& row, const Fact& fact, const Engine& engine) override;
  void on_reduced(const StartReduce& action, const Bytes& current,
                  const std::vector<SharedBytes>& updates, const std::vector<SharedBytes>& bases,
                  const Bytes& model) override;
  void on_job_submitted(const FacilityId& facility, const std::string& token,
                        const std::string& job) override;
  void on_job_over(const FacilityId& facility, const std::string& job,
                   const std::string& state) override;
  void on_process_started(const FacilityId& facility, const AttemptId& attempt) override;
  void on_process_ended(const FacilityId& facility, const AttemptId& attempt,
                        const Session* session) override;
  void on_session_sends(const FacilityId& facility, const Session& session,
                        Request::Kind kind) override;

 private:
  using JobKey = std::pair<FacilityId, std::string>;  // and the job's number
  struct Running {
    double began_s = 0;  // the processes
    double since_s = 0;  // the present activity
    Activity activity = Activity::launching;
    std::int64_t job = 0;
  };

  [[nodiscard]] double now_s() const;
  void change(const FacilityId& facility, const AttemptId& attempt, Activity activity, double at_s);
  void add_span(const FacilityId& facility, std::int64_t job, Activity activity, double begin_s,
                double end_s);
  void note(const UpdateDecided& fact);
  void note(const ReduceStarted& fact);

  Clock* clock_ = nullptr;
  std::map<FacilityId, int> facilities_;
  double nodes_;
  std::deque<Bytes> models_;
  std::size_t models_kept_;
  Bytes next_model_;
  Version version_ = 0;
  std::string finished_;
  std::map<JobKey, double> submitted_s_;
  std::map<std::pair<FacilityId, AttemptId>, Running> running_;
  std::map<UpdateId, double> train_seconds_;  // of decided updates
  double useful_node_seconds_ = 0;
  CellResult counts_;
};

}  // namespace fedqueue::simulation
