// The decisions of one federated run. The engine decides; it never does: it holds no socket, file,
// thread or clock, so that the server and a simulator drive exactly the same object.
//
//   round open ──(all expected in, or timer with enough)──▶ reducing ──▶ published = next round
//   open
//        └──(timer with too little)── re-armed; after some in a row the run shows "stalled"
//
// Invariants (checked after every step):
//   1. An update counts at most once, however often the client sends it.
//   2. The set of a round is frozen once its reduction has started.
//   3. A facility has at most one assigned attempt.
//   4. Versions grow by one; staleness of a counted update never exceeds the cap at its counting.
//
// step() is a function of (state, event, now) alone; the state changes through facts only, which
// apply() folds, so that replaying the journal rebuilds it.
//
// Not thread-safe: the driver owns the engine.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "aggregation/policy/policy.h"
#include "core/base/time.h"
#include "fedserver/engine/events.h"
#include "fedserver/engine/state.h"

namespace fedqueue {

struct EngineConfig {
  std::string run;
  PolicyConfig policy;
  std::int64_t rounds_max = 0;    // the run is finished after so many versions; 0: no end
  double run_deadline_s = 0;      // server uptime after which the run is finished; 0: none
  double heartbeat_s = 10;        // how often a running job reports
  double lease_s = 60;            // silence after which a running job counts as lost
  double contact_timeout_s = 0;   // silence after which a facility is not expected; 0: 3·t_sync
  double plan_retry_s = 0;        // hint to agents that must wait; 0: t_sync/20 within 0.5..60
  double job_time_limit_s = 0;    // asked for every job; 0: the site profile's
  int empty_timers_max = 3;       // in a row, before the run shows "stalled"
  std::int64_t models_kept = 20;  // newest versions kept; 0: all
  std::map<std::string, std::string> training;  // settings every trainer gets
};

struct Step {
  std::vector<Fact> facts;      // journal these first,
  std::vector<Action> actions;  // then do these,
  Answer answer;                // and tell the sender.
};

class Engine {
 public:
  // REQUIRES: config.policy.validate() succeeds.
  explicit Engine(EngineConfig config);

  // Decides, and applies its own facts.
  [[nodiscard]] Step step(const Event& event, Instant now);

  // Folds one journalled fact. After the last one of a replay comes resumed().
  void apply(const Fact& fact, Instant at);

  // After the replay: silence is counted from here, so that clients have time to come back.
  void resumed(Instant now);

  // The work a restarted server owes, derived from the state alone.
  [[nodiscard]] std::vector<Action> pending() const;

  // When time alone may change something.
  [[nodiscard]] std::optional<Instant> next_wakeup() const;

  [[nodiscard]] const RunState& state() const { return state_; }
  [[nodiscard]] const EngineConfig& config() const { return config_; }
  [[nodiscard]] const Policy& policy() const { return *policy_; }

  // The run as JSON for people and dashboards; with a viewer, other facilities' details are left
  // out.
  [[nodiscard]] std::string status(const std::optional<FacilityId>& viewer, Instant now) const;

  // The durable part of the state as text: equal before a restart and after its replay.
  [[nodiscard]] std::string durable_state() const;

 private:
  // Events.
  void on(const FacilityEnrolled& event);
  void on(const PlanRequested& event);
  void on(const AttemptArrived& event);
  void on(const HeartbeatArrived& event);
  void on(const AttemptLeft& event);
  void on(const UploadOffered& event);
  void on(const UpdateStored& event);
  void on(const UpdateRefused& event);
  void on(const UpdateAsked& event);
  void on(const EvaluationArrived& event);
  void on(const ReduceFinished& event);
  void on(const ReduceFailed& event);
  void on(const StopRequested& event);
  void on(const StatusRequested& event);
  void on(const Tick& event);

  // Facts.
  void fold(const RunOpened& fact);
  void fold(const FacilityJoined& fact);
  void fold(const PlanGiven& fact);
  void fold(const AttemptStarted& fact);
  void fold(const AttemptRelaunched& fact);
  void fold(const AttemptRelieved& fact);
  void fold(const AttemptFenced& fact);
  void fold(const AttemptEnded& fact);
  void fold(const SegmentAssigned& fact);
  void fold(const NextDecided& fact);
  void fold(const UpdateDecided& fact);
  void fold(const RoundTimedOut& fact);
  void fold(const ReduceStarted& fact);
  void fold(const UpdatesDropped& fact);
  void fold(const ReduceStalled& fact);
  void fold(const Published& fact);
  void fold(const ModelsPruned& fact);
  void fold(const EvaluationRecorded& fact);
  void fold(const RunStalled& fact);
  void fold(const RunFinished& fact);

  // Journals a fact in the current step and applies it.
  void record(Fact fact);
  void act(Action action);
  void answer(Answer answer);

  FacilityState* facility(const FacilityId& id);
  AttemptState* attempt(const FacilityId& facility, const AttemptId& id);
  [[nodiscard]] bool delivered(const FacilityId& id) const;
  [[nodiscard]] bool active(const FacilityState& facility) const;
  [[nodiscard]] std::vector<KnownFacility> known_facilities() const;
  [[nodiscard]] KnownFacility known(const FacilityId& id, const FacilityState& facility) const;
  [[nodiscard]] std::vector<KnownFacility> senders(const RoundState& round) const;
  [[nodiscard]] const Shares& shares() const;
  [[nodiscard]] RoundState round_state(bool timer_fired) const;
  [[nodiscard]] RoundState bare_round() const;
  [[nodiscard]] RoundState round_for(const FacilityId& id) const;
  [[nodiscard]] bool outstanding(const FacilityId& id, const FacilityState& facility) const;
  [[nodiscard]] bool waits_for_somebody() const;
  void set_failed(FacilityState& facility, bool failed);
  [[nodiscard]] Arrival arrival_of(const UpdateDecided& decision) const;
  [[nodiscard]] double plan_retry_s() const;
  // How soon an attempt should ask again for what comes after its update.
  [[nodiscard]] double answer_retry_s(const GroupPlace& place) const;
  // The other facilities, if the policy plans by them.
  [[nodiscard]] std::vector<KnownFacility> others_for_plan() const;
  [[nodiscard]] std::vector<Group> groups() const;
  void join_group(const FacilityId& id, const GroupPlace& place);
  void leave_groups(const FacilityId& id);
  void set_waiting_updates();
  [[nodiscard]] double contact_timeout_s() const;
  void arm_timer(Instant from);

  [[nodiscard]] PlanAnswer plan_wait(std::string reason, double retry_after_s) const;
  [[nodiscard]] std::optional<PlanAnswer> reason_to_wait(const FacilityId& id,
                                                         const FacilityState& facility,
                                                         const PlanRequest& request) const;
  void give_plan(const FacilityId& id, FacilityState& facility, const PlanRequest& request);
  [[nodiscard]] std::string refusal_of_launch(const FacilityState& facility,
                                              const JobRegistration& registration) const;
  void start_attempt(const AttemptArrived& event, FacilityState& facility);
  // Decides what an assigned attempt does next, assigning a segment if that is it.
  [[nodiscard]] Next next_for(const FacilityId& id, const AttemptId& attempt_id);
  [[nodiscard]] bool waits_for_publish(const FacilityId& id, const AttemptState& attempt) const;
  [[nodiscard]] SegmentAssigned make_segment(const FacilityId& id,
                                             const AttemptState& attempt) const;
  // What is left of the attempt's allocation, when that is known.
  [[nodiscard]] std::optional<double> remaining_s(const AttemptState& attempt) const;
  [[nodiscard]] JobAnswer job_answer(const FacilityId& id, const AttemptId& attempt_id);
  void end_attempt(const FacilityId& id, const AttemptId& attempt_id, std::string state,
                   std::string detail);

  struct Delivery;
  [[nodiscard]] Result<Delivery> delivery(const FacilityId& facility, const UpdateId& id,
                                          const UpdateMetadata& metadata, const std::string& token);
  bool answered_before(const FacilityId& facility, const UpdateId& id);
  bool answer_is_forgotten(const FacilityId& facility, const UpdateId& id);
  [[nodiscard]] UpdateDecided decision_about(const Delivery& delivery, const FacilityId& facility,
                                             const UpdateId& id,
                                             const UpdateMetadata& metadata) const;
  void decide(const Delivery& delivery, UpdateDecided decision, Admission admission);
  [[nodiscard]] Next next_after(const AttemptState& attempt, bool rejected, bool answer_now,
                                const GroupPlace& place) const;
  // Decides what follows a decided update, if that was left open and can be told now.
  void settle_next(const UpdateId& id);
  [[nodiscard]] UpdateAnswer current_answer(const UpdateDecided& decision) const;
  void settle_members(std::vector<UpdateId> updates);

  void consider_closing(bool timer_fired);
  void close_round(const Aggregation& aggregation, const std::string& cause);

  [[nodiscard]] std::optional<Instant> next_change(const FacilityId& id,
                                                   const FacilityState& facility) const;
  void note_in_agenda(const FacilityId& id);
  [[nodiscard]] std::vector<FacilityId> take_due();
  void count_if_active(FacilityState& facility);
  void expire_leases(const std::vector<FacilityId>& due);
  void expire_handovers(const std::vector<FacilityId>& due);
  [[nodiscard]] Instant excused_from(const FacilityState& facility) const;
  [[nodiscard]] Instant silent_from(const FacilityState& facility) const;

  void forget_answer(const UpdateId& id);
  void forget_older_answers(const FacilityId& facility, const AttemptId& id, int segments_done);
  void forget_landed(const UpdateId& id);
  void forget_attempts(const FacilityId& id, FacilityState& facility);
  void note_base(Version base, const FacilityId& facility);
  [[nodiscard]] bool starts_from(const FacilityId& id, Version base) const;
  void prune_models();

  void fire_timer();
  void retry_reduce();
  void drop_outdated();
  void record_round(const ReduceStarted& fact);
  [[nodiscard]] StartReduce start_reduce() const;
  void check_invariants(const Step& step) const;
  [[nodiscard]] nlohmann::json facility_json(const FacilityId& id, const FacilityState& facility,
                                             Instant now) const;

  EngineConfig config_;
  std::unique_ptr<const Policy> policy_;
  RunState state_;
  Step* current_ = nullptr;                    // during step()
  mutable std::optional<Shares> shares_;       // absent: somebody enrolled since
  mutable std::optional<FacilityId> awaited_;  // who was missing when last looked for
  Instant now_{};
};

}  // namespace fedqueue
