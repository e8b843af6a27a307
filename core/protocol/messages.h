// The messages of protocol v1 (docs/protocol.md), as plain values and as JSON.
//
// Every decoder checks what it reads: kind, range and length of each field; unknown fields are
// ignored so that older servers accept newer clients. Times are durations in seconds, never
// absolute: no two clocks are ever compared.
//
// Thread safety: plain values and free functions.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"

namespace fedqueue {

inline constexpr std::size_t json_bytes_max = 64u << 10;
inline constexpr std::size_t metadata_bytes_max = 4u << 10;  // of the Fedqueue-Metadata header
inline constexpr std::size_t text_bytes_max = 2000;          // of any text field

// Names of the HTTP headers of our own.
inline constexpr const char* header_metadata = "Fedqueue-Metadata";  // UpdateMetadata as JSON
inline constexpr const char* header_digest = "Fedqueue-Digest";      // XXH3-128 of the whole body
inline constexpr const char* header_offset = "Fedqueue-Offset";      // durable bytes of an upload
inline constexpr const char* header_token = "Fedqueue-Job-Token";

// One cluster's own record of a job's way through the queue.
struct QueueRecord {
  std::optional<double> queue_wait_s;  // start − max(submit, eligible)
  double held_s = 0;                   // submit → eligible: our own holding, not the queue's
  std::optional<double> time_limit_s;
  std::optional<double> remaining_s;  // until the job's end, as seen at registration
};

// POST plans
struct PlanRequest {
  std::string key;       // idempotency: the agent's token for the job it may submit
  int pending_jobs = 0;  // jobs of this run that the agent knows to be queued
  int running_jobs = 0;
  std::optional<double> expected_wait_s;  // the scheduler's own estimate, when there is one
};

struct PlanAnswer {
  enum class Verb { submit, wait, stop };
  Verb verb = Verb::wait;
  std::string reason;
  double retry_after_s = 0;  // wait: when to ask again
  std::string key;           // submit: belongs into the job's comment
  std::int64_t local_steps = 0;
  double learning_rate = 0;
  double time_limit_s = 0;     // the job's; 0 = the site profile's
  double deadline_wait_s = 0;  // a longer queue wait makes the update late
  std::optional<double> predicted_wait_s;
  Version base = -1;  // ≥ 0 when the base is pinned at planning
};

// One piece of work: `local_steps` from `base`.
struct Segment {
  int index = 1;
  Version base = 0;
  std::int64_t local_steps = 0;
  double learning_rate = 0;
};

// What a trainer does next.
struct Next {
  enum class Kind { segment, wait, stop };
  Kind kind = Kind::stop;
  Segment segment;    // segment
  double wait_s = 0;  // wait: then register again with the same nonce
  std::string reason;
};

// POST jobs
struct JobRegistration {
  AttemptId attempt;
  std::string nonce;     // of this launch of the ranks, so that a relaunch is told from a retry
  std::string plan_key;  // empty for a job the agent did not submit
  int ranks = 1;
  QueueRecord queue;
};

struct JobAnswer {
  std::string token;  // shown with heartbeats and uploads; changes when another launch takes over
  double heartbeat_s = 0;
  double lease_s = 0;
  std::map<std::string, std::string> training;  // the run's training settings
  Next next;
};

// POST jobs/{id}/heartbeat
struct Heartbeat {
  std::string token;
  std::int64_t steps_done = 0;
};

struct HeartbeatAnswer {
  enum class State { go_on, finish, fenced };
  State state = State::go_on;
  std::string reason;
};

// DELETE jobs/{id}
struct JobEnd {
  std::string token;   // empty when the agent reports
  std::string state;   // the scheduler's word, or "done"
  std::string detail;  // one sentence: what was seen, where the log is
};

// Header of PUT updates/{id}
struct UpdateMetadata {
  Version base = 0;
  std::int64_t steps_run = 0;
  double seconds_per_step = 0;
  double train_seconds = 0;
  double overhead_s = 0;  // start of the job → first step: launch, library and model loading
  double loss = 0;
  std::int64_t samples = 0;  // seen, not owned
};

enum class Disposition { counted, buffered, rejected };

// PUT and GET updates/{id}: stored, decided, and what comes next.
struct UpdateAnswer {
  UpdateId id;
  Disposition disposition = Disposition::counted;
  Code code = Code::internal;  // rejected: the client's exit code
  std::string reason;
  bool late = false;
  std::int64_t staleness = 0;
  Next next;
};

// POST evaluations
struct Evaluation {
  Version version = 0;
  double accuracy = 0;  // 0..1
  double loss = 0;
  std::int64_t samples = 0;
};

// application/problem+json; `code` is code_name() of the error, so that a client exits with the
// same code as if it had found the fault itself.
struct Problem {
  int status = 500;
  Error error;
};

[[nodiscard]] const char* to_text(PlanAnswer::Verb verb);
[[nodiscard]] const char* to_text(Next::Kind kind);
[[nodiscard]] const char* to_text(HeartbeatAnswer::State state);
[[nodiscard]] const char* to_text(Disposition disposition);

// Encoders never fail; the text is one line.
[[nodiscard]] std::string encode(const PlanRequest&);
[[nodiscard]] std::string encode(const PlanAnswer&);
[[nodiscard]] std::string encode(const JobRegistration&);
[[nodiscard]] std::string encode(const JobAnswer&);
[[nodiscard]] std::string encode(const Heartbeat&);
[[nodiscard]] std::string encode(const HeartbeatAnswer&);
[[nodiscard]] std::string encode(const JobEnd&);
[[nodiscard]] std::string encode(const UpdateMetadata&);
[[nodiscard]] std::string encode(const UpdateAnswer&);
[[nodiscard]] std::string encode(const Evaluation&);
[[nodiscard]] std::string encode(const Problem&);

// decode<T>(text): usage errors name the field, what was got and what is allowed.
template <typename T>
[[nodiscard]] Result<T> decode(std::string_view text);
template <>
Result<PlanRequest> decode(std::string_view text);
template <>
Result<PlanAnswer> decode(std::string_view text);
template <>
Result<JobRegistration> decode(std::string_view text);
template <>
Result<JobAnswer> decode(std::string_view text);
template <>
Result<Heartbeat> decode(std::string_view text);
template <>
Result<HeartbeatAnswer> decode(std::string_view text);
template <>
Result<JobEnd> decode(std::string_view text);
template <>
Result<UpdateMetadata> decode(std::string_view text);
template <>
Result<UpdateAnswer> decode(std::string_view text);
template <>
Result<Evaluation> decode(std::string_view text);
template <>
Result<Problem> decode(std::string_view text);

// The HTTP status that tells a peer of this error.
[[nodiscard]] int http_status(Code code);

// The same codec for use inside larger documents (journal, events).
void to_json(nlohmann::json&, const Segment&);
void to_json(nlohmann::json&, const Next&);
void to_json(nlohmann::json&, const QueueRecord&);
void to_json(nlohmann::json&, const PlanAnswer&);
void to_json(nlohmann::json&, const UpdateMetadata&);
void to_json(nlohmann::json&, const UpdateAnswer&);
void to_json(nlohmann::json&, const Evaluation&);
// These throw nlohmann::json::exception on a wrong shape; decode() catches it.
void from_json(const nlohmann::json&, Segment&);
void from_json(const nlohmann::json&, Next&);
void from_json(const nlohmann::json&, QueueRecord&);
void from_json(const nlohmann::json&, PlanAnswer&);
void from_json(const nlohmann::json&, UpdateMetadata&);
void from_json(const nlohmann::json&, UpdateAnswer&);
void from_json(const nlohmann::json&, Evaluation&);

}  // namespace fedqueue
