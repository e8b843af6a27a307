// What must never happen in a simulated world, whatever fails. The checker keeps its own account of
// a run, from the journal's rows alone, and compares with it what the server says, publishes, keeps
// on its disk and does after a restart.
//
//   counting     an update counts at most once, and never after it was dropped; only what was
//                decided, accepted and is what was sent
//   versions     grow by one; each is the weighted sum of its journalled set by the plainest
//                arithmetic, under its checksum, and durable when its fact is
//   staleness    never above the policy's cap; as it is stated
//   weights      finite, ≥ 0, with the sum that the rule promises; control variates have 1/N
//   replies      rest on what is journalled; an update's answer is the same bytes for ever, but for
//                what comes next, which is told once it is known and then stays; what is
//                acknowledged and reported as durable is
//   jobs         one assigned attempt per facility; no second live job that was not meant; the base
//                of a live segment is kept; a replaced launch has no rights and sends nothing; a
//                job does not give up at the first failure that may pass
//   restart      the state after the replay is the state before
//   timer        armed while a round is open, where the policy has one
//   bounds       the driver's queue is as short as it was told to be; room is promised to uploads
//                that are under way alone; what waits is listed once and only while it waits; no
//                answer is remembered that nobody can ask for; a version that nobody needs is gone
//                with the next; no file is left over
//
// Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "simulation/check/reference.h"
#include "simulation/check/scenario.h"
#include "simulation/world/world.h"

namespace fedqueue::simulation {

struct Violation {
  Instant at{};
  std::string what;
};

class Checker : public Witness {
 public:
  explicit Checker(const Scenario& scenario);
  // Before the world starts.
  void attach(World& world) { world_ = &world; }

  [[nodiscard]] const std::vector<Violation>& violations() const { return violations_; }
  void violation(std::string what);

  // Updates of a facility that were decided so far, whatever the decision.
  [[nodiscard]] int decided(const FacilityId& facility) const;
  [[nodiscard]] Version latest() const { return latest_; }
  // A facility has heard what became of an update.
  void settled(const FacilityId& facility, const UpdateId& id, Disposition disposition);
  // Takes in what is journalled and was not seen yet.
  void catch_up();

  void on_server_started(const Engine& engine, const SimulatedDisk& disk) override;
  void on_server_ending(const Engine& engine) override;
  void on_server_died(const std::string& where) override;
  void on_fact(const JournalRow& row, const Fact& fact, const Engine& engine) override;
  void on_load(const ServerLoad& load, const Engine& engine, const SimulatedDisk& disk) override;
  void on_turn(const Engine& engine) override;
  void on_reduced(const StartReduce& action, const Bytes& current,
                  const std::vector<SharedBytes>& updates, const std::vector<SharedBytes>& bases,
                  const Bytes& model) override;
  void on_reply(const FacilityId& peer, const Request& request, const Reply& reply,
                const SimulatedDisk& disk) override;
  void on_job_submitted(const FacilityId& facility, const std::string& token,
                        const std::string& job) override;
  void on_process_started(const FacilityId& facility, const AttemptId& attempt) override;
  void on_process_ended(const FacilityId& facility, const AttemptId& attempt,
                        const Session* session) override;
  void on_session_sends(const FacilityId& facility, const Session& session,
                        Request::Kind kind) override;
  void on_session_fenced(const FacilityId& facility, const Session& session) override;

 private:
  using AttemptKey = std::pair<FacilityId, AttemptId>;

  void take(const JournalRow& row, const Fact& fact);
  void fold(const RunOpened& fact);
  void fold(const PlanGiven& fact);
  void fold(const AttemptStarted& fact);
  void fold(const AttemptRelaunched& fact);
  void fold(const AttemptFenced& fact);
  void fold(const SegmentAssigned& fact);
  void fold(const UpdateDecided& fact);
  void fold(const NextDecided& fact);
  void fold(const ReduceStarted& fact);
  void fold(const UpdatesDropped& fact);
  void fold(const Published& fact);
  template <typename Other>
  void fold(const Other&) {}

  [[nodiscard]] std::int64_t staleness_cap() const;
  void check_weights(const ReduceStarted& fact);
  [[nodiscard]] std::string difference_of_halves(const std::vector<double>& expected,
                                                 const Bytes& model, const Bytes& current,
                                                 const std::vector<SharedBytes>& updates) const;
  void check_lists(const RunState& state, const Engine& engine);
  void check_answers(const RunState& state);
  [[nodiscard]] Version oldest_needed(const RunState& state) const;
  void check_models(const RunState& state);
  void check_left_over(const ServerLoad& load, const RunState& state, const SimulatedDisk& disk);
  void check_attempts(const FacilityId& id, const FacilityState& facility, const RunState& state);
  void check_files(const RunState& state, const SimulatedDisk& disk);
  void check_update_reply(const FacilityId& peer, const Request& request, const Reply& reply,
                          const SimulatedDisk& disk);
  void check_offset(const Request& request, const Reply& reply, const SimulatedDisk& disk);
  [[nodiscard]] static std::string launch_of(const FacilityId& facility, const Session& session);

  const Scenario& scenario_;
  PolicyConfig policy_;
  World* world_ = nullptr;
  std::vector<Violation> violations_;

  std::int64_t rows_seen_ = 0;
  Version latest_ = 0;
  std::map<Version, ModelRecord> models_;
  std::map<FacilityId, std::string> plans_;            // newest key
  std::map<AttemptKey, std::string> tokens_;           // newest
  std::set<std::pair<AttemptKey, std::string>> told_;  // all
  std::map<UpdateId, std::string> deciding_tokens_;    // the newest when it was decided
  std::set<AttemptKey> fenced_;
  std::map<AttemptKey, Segment> segments_;
  std::map<UpdateId, UpdateDecided> decisions_;
  std::map<UpdateId, Next> follow_ups_;
  std::map<FacilityId, int> decided_;
  std::set<UpdateId> used_;
  std::set<UpdateId> dropped_;
  std::optional<ReduceStarted> reducing_;
  std::optional<std::string> durable_state_;  // of the process that ended between two turns
  std::set<UpdateId> followed_;               // their facility was told what comes next
  std::set<std::string> fenced_launches_;
  std::map<AttemptKey, std::vector<Instant>> launched_;
  ReferenceServer reference_;
  std::size_t answers_checked_ = 0;
  Version latest_before_turn_ = 0;
  Version needed_before_turn_ = 0;
  std::map<Version, std::string> reduced_;  // checksums of what was made of the reference's inputs
};

}  // namespace fedqueue::simulation
