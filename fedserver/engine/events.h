// What can happen to a run (events), what the engine makes of it (facts), and what it wants done
// (actions). Events are nouns with participles, facts are past tense, actions are imperative.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "aggregation/optimizer/server_step.h"
#include "aggregation/policy/policy.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/protocol/messages.h"

namespace fedqueue {

// A published model: where it is and what it is.
struct ModelRecord {
  Version version = 0;
  std::string file;    // name within the models folder
  std::string sha256;  // of the whole file
  std::uint64_t bytes = 0;
};

// What the server keeps beside a model from round to round (momentum, moments, control variates):
// a file of its own within the models folder, written together with its version.
struct ServerState {
  Version version = 0;  // of the model it belongs to
  std::string file;
  std::string sha256;  // of the whole file
  std::uint64_t bytes = 0;
};

// --- events
// ----------------------------------------------------------------------------------------

// The operator gave this facility a certificate and fixed its sample count.
struct FacilityEnrolled {
  FacilityId facility;
  std::int64_t samples = 0;
};

struct PlanRequested {
  FacilityId facility;
  PlanRequest request;
};

struct AttemptArrived {
  FacilityId facility;
  JobRegistration registration;
  std::string fresh_token;  // random, used if the attempt gets a new token
};

struct HeartbeatArrived {
  FacilityId facility;
  AttemptId attempt;
  Heartbeat heartbeat;
};

struct AttemptLeft {
  FacilityId facility;
  AttemptId attempt;
  JobEnd end;
};

// A client is about to send an update's bytes. Changes nothing: the answer is an Accepted, an
// error, or the decision that was already taken.
struct UploadOffered {
  FacilityId facility;
  UpdateId id;
  UpdateMetadata metadata;
  std::string token;
  std::uint64_t bytes = 0;
};

// All bytes are durable, their digest is right and the screening found nothing.
struct UpdateStored {
  FacilityId facility;
  UpdateId id;
  UpdateMetadata metadata;
  std::string token;
  std::string digest;  // XXH3-128
  std::uint64_t bytes = 0;
  double norm = 0;
};

// The bytes arrived, but the screening refused them.
struct UpdateRefused {
  FacilityId facility;
  UpdateId id;
  UpdateMetadata metadata;
  std::string token;
  Error why;
};

// GET or HEAD of an update. Settles what comes next, when that had to wait for a publication.
struct UpdateAsked {
  FacilityId facility;
  UpdateId id;
};

struct EvaluationArrived {
  Evaluation evaluation;
};

struct ReduceFinished {
  ModelRecord model;
  double step_norm = 0;
  std::optional<ServerState> state = {};  // written with the model, when the step has state
};

struct ReduceFailed {
  Version version = 0;  // that was to be made
  Error why;
};

struct StopRequested {
  std::string reason;
};

// Somebody wants to see the run. Changes nothing. A facility sees its own details alone.
struct StatusRequested {
  std::optional<FacilityId> viewer;
};

// Time went by.
struct Tick {};

using Event =
    std::variant<FacilityEnrolled, PlanRequested, AttemptArrived, HeartbeatArrived, AttemptLeft,
                 UploadOffered, UpdateStored, UpdateRefused, UpdateAsked, EvaluationArrived,
                 ReduceFinished, ReduceFailed, StopRequested, StatusRequested, Tick>;

// --- answers
// ---------------------------------------------------------------------------------------

struct Accepted {};  // yes, and there is nothing more to say

// What the sender of an event is told, after the facts are on disk.
using Answer = std::variant<Accepted, PlanAnswer, JobAnswer, HeartbeatAnswer, UpdateAnswer,
                            std::string /* a JSON document */, Error>;

// --- facts
// -----------------------------------------------------------------------------------------

struct RunOpened {
  std::string run;
  ModelRecord initial;
};

struct FacilityJoined {
  FacilityId facility;
  std::int64_t samples = 0;
};

struct PlanGiven {
  FacilityId facility;
  PlanAnswer plan;
  double budget_s = 0;
  GroupPlace place = {};
};

struct AttemptStarted {
  FacilityId facility;
  JobRegistration registration;
  std::string token;
  double deadline_wait_s = 0;  // of its plan
};

// The same job started its ranks again.
struct AttemptRelaunched {
  FacilityId facility;
  AttemptId attempt;
  std::string nonce;
  std::string token;
};

// A newer job of the facility has the slot; this one may still deliver.
struct AttemptRelieved {
  FacilityId facility;
  AttemptId attempt;
  std::string reason;
};

// A higher restart count of the same job took over; nothing of this one counts any more.
struct AttemptFenced {
  FacilityId facility;
  AttemptId attempt;
  std::string reason;
};

struct AttemptEnded {
  FacilityId facility;
  AttemptId attempt;
  std::string state;
  std::string detail;
  bool failed = false;  // it ended without the update it was to deliver
};

struct SegmentAssigned {
  FacilityId facility;
  AttemptId attempt;
  Segment segment;
  GroupPlace place = {};
};

struct UpdateDecided {
  FacilityId facility;
  AttemptId attempt;
  UpdateMetadata metadata;
  std::string digest;
  std::uint64_t bytes = 0;
  double norm = 0;
  std::int64_t steps_assigned = 0;
  std::optional<double> queue_wait_s;
  double deadline_wait_s = 0;
  Version arrived_in = 0;   // the newest version at the time
  bool held_back = false;   // buffered by the policy: waits in the late list
  double stored_s = 0;      // server uptime at its arrival
  GroupPlace place = {};    // of its segment
  bool answer_now = false;  // what comes next does not wait for a publication
  UpdateAnswer answer;
};

// What comes after a decided update, when its decision could not yet tell. From then on it is the
// answer to every question about the update.
struct NextDecided {
  FacilityId facility;
  AttemptId attempt;
  UpdateId update;
  Next next;
};

// The timer fired and there was too little to close the round with.
struct RoundTimedOut {
  Version version = 0;
  int times = 0;  // in a row
};

struct ReduceInput {
  UpdateId id;
  FacilityId facility;
  Version base = 0;
  std::int64_t staleness = 0;
  double weight = 0;
};

struct ReduceStarted {
  Version input_version = 0;
  std::vector<ReduceInput> updates;  // in the order of the sum
  std::vector<UpdateId> kept_late;   // stay buffered for the next round
  bool rebuild_models = false;
  bool unweighted_buffers = false;
  double keep = 0;            // of the current model, when models are mixed
  ServerStep step;            // when deltas are added
  double control_weight = 0;  // of the differences of control variates; 0: none are kept
  std::optional<ServerState> state = {};  // the server state that the step starts from; none: zeros
  std::string cause;                      // of the round's closing
  // From this round on: of every facility, or of those with an update in it where it is a rate.
  std::map<std::string, double> participation;
  std::vector<std::int64_t> closed_groups;
};

// Waiting updates that can never count any more.
struct UpdatesDropped {
  std::vector<UpdateId> ids;
};

struct ReduceStalled {
  Version input_version = 0;
  Error why;
};

struct Published {
  ModelRecord model;
  double step_norm = 0;
  std::optional<ServerState> state = {};  // replaces the older one
};

// Versions below this one (but the initial) are no longer kept.
struct ModelsPruned {
  Version below = 0;
};

struct EvaluationRecorded {
  Evaluation evaluation;
};

struct RunStalled {
  std::string reason;
};

struct RunFinished {
  std::string reason;
};

using Fact =
    std::variant<RunOpened, FacilityJoined, PlanGiven, AttemptStarted, AttemptRelaunched,
                 AttemptRelieved, AttemptFenced, AttemptEnded, SegmentAssigned, UpdateDecided,
                 RoundTimedOut, ReduceStarted, UpdatesDropped, ReduceStalled, Published,
                 ModelsPruned, EvaluationRecorded, RunStalled, RunFinished, NextDecided>;

// The fact's name in the journal and in event streams: "update-decided".
[[nodiscard]] const char* fact_kind(const Fact& fact);
// The fact as one line of JSON, without its kind.
[[nodiscard]] std::string encode_fact(const Fact& fact);
[[nodiscard]] Result<Fact> decode_fact(std::string_view kind, std::string_view text);

// --- actions
// ---------------------------------------------------------------------------------------
// Idempotent, so that a restarted server may do them again.

// Make version input_version + 1; ends in a ReduceFinished or ReduceFailed.
struct StartReduce {
  ReduceStarted plan;
  ModelRecord current;
  std::map<Version, ModelRecord> bases;  // of the updates, when models are rebuilt
};

struct LinkLatest {
  ModelRecord model;
};

struct RemoveUpdate {
  UpdateId id;
};

struct RemoveModel {
  ModelRecord model;
};

// The server state of an older version, which nothing refers to any more.
struct RemoveState {
  ServerState state;
};

using Action = std::variant<StartReduce, LinkLatest, RemoveUpdate, RemoveModel, RemoveState>;

}  // namespace fedqueue
