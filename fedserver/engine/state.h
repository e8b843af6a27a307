// What the engine knows of a run. Everything here but the fields marked "volatile" is a fold of the
// journalled facts, so that a restart finds it again; volatile fields start anew with a grace.
//
// Thread safety: plain values, owned by the engine.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "aggregation/planning/work_budget.h"
#include "aggregation/queue/wait_predictor.h"
#include "fedserver/engine/events.h"

namespace fedqueue {

// assigned: has the facility's slot. relieved: a newer job has it, this one may still deliver.
// fenced: nothing of it counts any more. ended: it left, its last segment may still arrive.
enum class AttemptPhase { assigned, relieved, fenced, ended };

[[nodiscard]] const char* to_text(AttemptPhase phase);

struct AttemptState {
  JobRegistration registration;
  std::string token;
  AttemptPhase phase = AttemptPhase::assigned;
  double deadline_wait_s = 0;
  std::optional<double> predicted_wait_s;  // when the job was planned
  std::optional<PlanAnswer> plan;
  std::optional<Segment> outstanding;  // handed out, its update not yet decided
  GroupPlace place;                    // of the outstanding segment, or of the plan
  Instant started_at{};
  Instant assigned_at{};                // of the newest segment; of the first: of the plan
  std::optional<Instant> decided_at{};  // of the newest update
  int segments_done = 0;
  std::optional<UpdateId> last_update;
  std::string end_state;
  Instant changed_at{};         // when a fact was last about it
  Instant lease_until{};        // volatile
  Instant deliver_until{};      // volatile: of a relieved attempt
  std::int64_t steps_done = 0;  // volatile, of the outstanding segment
};

struct FacilityState {
  std::int64_t samples = 0;
  WaitPredictor waits;
  StepTime step_time;
  StepTime overhead;
  // From the plan to the job's registration, less its queue wait: submitting, polling, launching.
  StepTime launch_delay;
  StepTime sync_time;  // between two segments of one job: all but training
  StepTime pace;       // seconds per step, from assignment to arrival
  std::optional<double> participation;
  std::optional<Instant> participation_at{};  // of its last counted update
  std::optional<PlanAnswer> plan;             // given, no job of it has registered yet
  GroupPlace plan_place;
  std::optional<AttemptId> assigned;
  bool failed = false;  // its newest job ended without an update
  std::optional<double> last_wait_s;
  std::string last_error;
  std::int64_t updates_counted = 0;
  std::int64_t updates_late = 0;
  std::int64_t updates_rejected = 0;
  std::int64_t rounds_missed = 0;
  std::int64_t jobs_failed = 0;
  std::map<AttemptId, AttemptState> attempts;
  Instant plan_at{};               // when the plan was given
  Instant contact_at{};            // volatile: last sign of life
  bool counts_as_active = false;   // volatile: in RunState::active
  std::optional<Instant> look_at;  // volatile: its entry in RunState::agenda
};

// One facility's part in one round, for people.
struct RoundCell {
  std::string outcome;  // admitted | late | missed
  std::optional<double> queue_wait_s;
  std::optional<double> predicted_wait_s;
  std::int64_t steps_run = 0;
  std::int64_t steps_assigned = 0;
  std::int64_t staleness = 0;
  double weight = 0;
  double loss = 0;
};

struct RoundRecord {
  Version version = 0;  // that the round made
  std::string cause;
  double open_s = 0;
  double step_norm = 0;
  bool published = false;
  std::map<FacilityId, RoundCell> cells;
};

// Facilities that are to arrive together.
struct GroupState {
  double expected_s = 0;
  double latest_s = 0;
  double fastest_pace_s = 0;
  std::set<FacilityId> missing;  // members whose update is not in yet
};

// Of lengths of updates; fewer than the latter say nothing about what is usual.
inline constexpr std::size_t norms_remembered = 64;
inline constexpr std::size_t norms_needed = 16;

struct RunState {
  std::string run;
  std::map<FacilityId, FacilityState> facilities;
  // Of the updates that are in flight, and the newest of every attempt that is remembered.
  std::map<UpdateId, UpdateDecided> decisions;
  std::vector<UpdateId> counted;  // in the open round, in the order of arrival
  std::vector<UpdateId> late;     // buffered for a later round
  std::optional<ReduceStarted> reducing;
  Instant reducing_since{};
  StepTime publish_time{0.2};    // from closing a round to its model
  StepTime turnaround{0.05};     // from one update of a job to its next, over all facilities
  std::set<UpdateId> in_flight;  // counted, late, or being reduced
  std::map<FacilityId, int> waiting_updates;  // counted or late, by facility
  std::map<UpdateId, Next> follow_ups;        // what comes after updates, told later
  std::map<std::int64_t, GroupState> groups;
  std::int64_t next_group = 0;
  std::set<std::pair<FacilityId, AttemptId>> relieved;  // may still deliver
  std::map<Version, ModelRecord> models;
  Version latest = 0;
  std::optional<ServerState> server_state;  // of `latest`
  std::deque<double> norms_per_step;        // of the newest updates that were not rejected
  Instant round_opened_at{};
  std::optional<Instant> timer_at;
  int empty_timers = 0;
  std::string stalled;   // why, or empty
  std::string finished;  // why, or empty
  std::string last_error;
  std::map<Version, Evaluation> evaluations;
  std::deque<RoundRecord> rounds;  // the newest
  std::size_t cells = 0;           // in them
  int reduce_failures = 0;
  std::optional<Instant> reduce_retry_at;  // volatile
  // Bases that segments and plans were given, with some that are not in use any more.
  std::set<std::pair<Version, FacilityId>> bases;
  std::int64_t active = 0;  // volatile: facilities that are neither silent nor failed
  // Volatile: when time alone may change what a facility is, if it is not heard of before.
  std::set<std::pair<Instant, FacilityId>> agenda;
};

// The files that a run still needs; a server that starts removes all others.
struct FilesInUse {
  std::set<UpdateId> updates;
  std::set<std::string> models;  // with the server state
};

[[nodiscard]] FilesInUse files_in_use(const RunState& state);

}  // namespace fedqueue
