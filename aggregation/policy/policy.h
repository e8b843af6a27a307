// What an aggregation algorithm decides: how much work a facility gets, in which round an update
// counts, when a round closes, and with which weights.
//
// A policy keeps no state. The engine owns the facts (who is enrolled, what arrived, predicted
// waits, participation) and asks; the same question always has the same answer, so that a restart
// by replay decides alike.
//
// Promises: weights are finite and ≥ 0; the order of the updates in an Aggregation depends on
// their names alone (facility, base, id), never on the order of arrival.
//
// Thread safety: immutable after make_policy; all members may be called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "aggregation/optimizer/server_step.h"
#include "aggregation/policy/policy_config.h"
#include "aggregation/policy/shares.h"
#include "core/base/ids.h"

namespace fedqueue {

struct KnownFacility {
  FacilityId id;
  std::int64_t samples = 0;                // fixed at enrolment
  std::optional<double> predicted_wait_s;  // q^
  std::optional<double> step_seconds;      // c^
  double overhead_s = 0;                   // o^
  double participation = 1;                // m, as it was before this round
  // Policies that publish on arrival: time since its last update counted, in mean segments of a
  // facility that is always there.
  double windows_since_counted = 1;
  std::optional<double> sync_seconds;  // measured between two of its segments: all but training
  std::optional<double> pace_s;        // seconds per step, from assignment to arrival (FedCompass)
  bool active = true;                  // enrolled and neither departed nor failed
};

// Where a facility stands among those that are to arrive together. Times are server uptime.
struct GroupPlace {
  std::int64_t group = -1;  // −1: none
  double expected_s = 0;
  double latest_s = 0;  // whoever comes after it is late
  friend bool operator==(const GroupPlace&, const GroupPlace&) = default;
};

// Facilities that are to arrive together (FedCompass).
struct Group {
  std::int64_t id = 0;
  double expected_s = 0;
  double latest_s = 0;
  double fastest_pace_s = 0;  // seconds per step of its fastest member
  std::int64_t missing = 0;   // members whose update is not in yet
};

struct GroupedWork {
  GroupPlace place;
  std::int64_t local_steps = 1;
};

struct WorkPlan {
  std::int64_t local_steps = 1;
  double learning_rate = 0;
  double budget_s = 0;         // J
  double deadline_wait_s = 0;  // D: a wait up to and including this is in time
};

struct Arrival {
  UpdateId id;
  FacilityId facility;
  Version base = 0;
  // Versions published since the base, at the time of the question. Recomputed from the round's
  // version when weights are made, since a buffered update ages.
  std::int64_t staleness = 0;
  std::int64_t steps_assigned = 0;
  std::int64_t steps_run = 0;
  double norm = 0;  // L2, of the parameters
  std::optional<double> queue_wait_s;
  double deadline_wait_s = 0;  // D of the plan it was trained under
  Version arrived_in = 0;      // the version at arrival
  double stored_s = 0;         // server uptime at arrival
  GroupPlace place;            // of its segment
};

struct Admission {
  enum class Kind { count, buffer, reject };
  Kind kind = Kind::count;
  bool late = false;
  std::string reason;       // a sentence, for the log and the client
  bool answer_now = false;  // what comes next is told at once, whatever answers_after_publish()
};

struct RoundState {
  Version version = 0;                  // of the newest published model: g
  std::vector<Arrival> counted;         // in the order of arrival
  std::vector<Arrival> late;            // buffered, in the order of arrival
  std::vector<FacilityId> outstanding;  // expected (see Policy::expects), not yet in
  // Facilities the round counts on: enrolled, less those departed or failed in this round. The K
  // of `published`.
  std::int64_t enrolled = 0;
  bool timer_fired = false;
  double now_s = 0;           // server uptime
  std::vector<Group> groups;  // open ones, by id
  // Median of norm / steps_run over the newest updates; absent while there are few.
  std::optional<double> usual_norm_per_step;
};

struct CloseDecision {
  bool close = false;
  std::string reason;  // "all expected facilities are in", "timer", or what is still missing
};

struct WeightedUpdate {
  UpdateId id;
  FacilityId facility;
  Version base = 0;
  std::int64_t staleness = 0;
  double weight = 0;
  double staleness_factor = 1;  // s(τ); the χ of the participation
};

struct DroppedUpdate {
  UpdateId id;
  std::string reason;
};

struct Aggregation {
  std::vector<WeightedUpdate> updates;  // in the fixed order: facility, base, id
  std::vector<UpdateId> kept_late;      // stay in RoundState::late of the next round
  std::vector<DroppedUpdate> dropped;   // never used: superseded, or grown too old
  bool rebuild_models = false;          // mix whole models, base + delta, instead of deltas
  // When models are mixed, the weight of the current one: w ← keep·w + Σ a_k·(base_k + Δ_k).
  double keep = 0;
  ServerStep step;  // what becomes of Σ a_k·Δ_k when deltas are added
  // SCAFFOLD: c ← c + control_weight · Σ (differences of the control variates). 0: none are kept.
  double control_weight = 0;
  std::vector<std::int64_t> closed_groups;  // whose members are placed anew
  bool unweighted_buffers = false;          // plain mean of buffers and integers, truncated
  [[nodiscard]] bool empty() const { return updates.empty(); }
};

class Policy {
 public:
  virtual ~Policy() = default;

  // The configuration with all defaults filled in.
  [[nodiscard]] const PolicyConfig& config() const { return config_; }

  // The policy's own name; "fedqueue-published" and "fedqueue-corrected" for the two of FedQueue.
  [[nodiscard]] virtual std::string_view name() const = 0;

  // True: base, steps, learning rate and deadline are fixed when the plan is given out. False: the
  // segment is made, from the newest version, when the job has started (late binding).
  [[nodiscard]] virtual bool pins_base_at_plan() const = 0;

  // True: what comes next is told only after the version that holds the update is published.
  // False: at once.
  [[nodiscard]] virtual bool answers_after_publish() const = 0;

  // True: no plan for a facility's next job before the version that holds its update is published.
  [[nodiscard]] virtual bool holds_facility_until_publish() const = 0;

  // True: every arrival makes a version. Then staleness caps count in units of the active
  // facilities, and participation is a rate.
  [[nodiscard]] virtual bool publishes_on_arrival() const { return false; }

  // True: a facility counts once in a round, and its next segment belongs to the next round.
  [[nodiscard]] virtual bool one_update_per_round() const { return true; }

  // True: before its timer a round never closes while an expected facility is missing.
  [[nodiscard]] virtual bool waits_for_expected() const { return false; }

  // Whether plan() looks at the other facilities; false spares the caller to list them.
  [[nodiscard]] virtual bool plans_by_others() const;

  // Whether a facility that has a running job may submit its next one, `elapsed_s` after the start
  // of that job. An unknown time limit counts as reached.
  [[nodiscard]] bool may_submit_successor(double elapsed_s,
                                          std::optional<double> time_limit_s) const;

  // How much of a job may be trained: whether one that has done so many segments gets another.
  [[nodiscard]] bool has_more_segments(std::int64_t segments_done) const;

  // Settings that every trainer gets under this policy, unless the run sets them itself.
  [[nodiscard]] std::map<std::string, std::string> training_settings() const;

  // How far an update may lie behind, in versions; absent: any distance.
  [[nodiscard]] std::optional<std::int64_t> staleness_cap_versions(std::int64_t active) const;

  // A place among groups of facilities that are to arrive together, for the next segment of
  // `self`; absent for policies without groups, and for a facility whose pace is unknown. `groups`
  // are all that may be joined; a new one gets the id `next_group`.
  [[nodiscard]] virtual std::optional<GroupedWork> place(const KnownFacility& self,
                                                         std::span<const Group> groups,
                                                         std::int64_t next_group,
                                                         double now_s) const;

  // How long a round stays open at most; absent: until everybody expected is in.
  [[nodiscard]] std::optional<double> round_timer_s() const;

  // The work for `self`'s next segment. `all` lists the enrolled facilities (with or without
  // `self`, whose own entry is taken from the first argument). `time_limit_s` is the job's limit,
  // or what is left of it; for a further segment in a running job set self.predicted_wait_s = 0.
  [[nodiscard]] virtual WorkPlan plan(const KnownFacility& self, std::span<const KnownFacility> all,
                                      std::optional<double> time_limit_s,
                                      Version version) const = 0;

  [[nodiscard]] virtual Admission admit(const Arrival& arrival, const RoundState& round) const = 0;
  [[nodiscard]] virtual CloseDecision should_close(const RoundState& round) const = 0;

  // p_k of all enrolled facilities, active or not; the same until somebody enrols.
  [[nodiscard]] Shares shares(std::span<const Enrolment> enrolled) const;

  // The round's updates and weights. `senders` lists at least every enrolled facility that has an
  // update in the round. Empty if nothing can be counted.
  [[nodiscard]] virtual Aggregation aggregate(const RoundState& round,
                                              std::span<const KnownFacility> senders,
                                              const Shares& shares) const = 0;
  // The same from a list of all enrolled facilities.
  [[nodiscard]] Aggregation aggregate(const RoundState& round,
                                      std::span<const KnownFacility> enrolled) const;

  // Whether an active facility still belongs to the round's expected set: its job has waited
  // `waited_s` so far, or waited that long before it started.
  [[nodiscard]] virtual bool expects(double waited_s, double deadline_wait_s) const = 0;

  // Lowers the weights of updates that are much longer than usual (norm_factor_max); where whole
  // models are mixed, the current one gets what they lose.
  void limit_norms(Aggregation& aggregation, const RoundState& round) const;

  // m for a facility of which no round has been seen yet.
  [[nodiscard]] double initial_participation(const KnownFacility& facility, double budget_s) const;

  // m after the round that `aggregation` describes, for any enrolled facility. Where participation
  // is a rate, asked for those alone that are in it: the others' time since their last update goes
  // on by itself.
  [[nodiscard]] double participation_after(const KnownFacility& facility,
                                           const Aggregation& aggregation) const;

 protected:
  explicit Policy(const PolicyConfig& config) : config_(config.effective()) {}

 private:
  PolicyConfig config_;
};

// REQUIRES: config.validate() succeeds.
[[nodiscard]] std::unique_ptr<const Policy> make_policy(const PolicyConfig& config);

}  // namespace fedqueue
