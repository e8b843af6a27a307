// The agent's decisions, as a pure state machine: it says what to do next and is told what came of
// it. The loop (loop.h) performs the steps; tests and the simulator play them.
//
//   poll ─▶ ask_plan ─submit─▶ store ─▶ submit ─▶ store ─▶ poll … ended ─▶ settle ─▶ ask_plan
//                    ─wait──▶ wait           └─ no answer ─▶ wait ─▶ look_up ─▶ submit again
//                    ─stop──▶ cancel ─▶ over
//
// Promises:
//   1. A token and its plan are durable before the job is submitted, and a submission is repeated
//      only after looking for that token; so a stop at any point ends in one live job, not two.
//   2. Not seeing a job proves nothing: a job that was never shown keeps its place until its time
//      limit has passed, so that a blind scheduler gets at most `jobs_max` submissions.
//   3. Every job that ended is settled with the server (snapshots, end) before it is forgotten.
//   4. A limit of the site is waited for and shown; what can never be accepted ends the agent.
//   5. Jobs that fail one after the other are followed by ever longer waits, and after
//      `failures_max` of them the agent ends with the last one's words.
//   6. The scheduler is asked at most once per `poll_interval`, less often when it is slow or
//      fails, and not at all while there is nothing to ask about.
//
// Not thread-safe. Source: docs/architecture.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/prng.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/protocol/messages.h"
#include "core/protocol/upload.h"
#include "fedclient/agent/scheduler.h"
#include "fedclient/agent/state.h"

namespace fedqueue {

struct AgentSettings {
  Duration poll_interval = std::chrono::seconds(60);
  Duration poll_longest = std::chrono::minutes(10);
  Duration poll_slow = std::chrono::seconds(5);  // an answer that takes longer is a slow one
  int jobs_max = 2;                              // live ones: running and its successor
  int pending_max = 1;
  // How long a submission without an answer may take to show: twice Slurm's message time-out.
  Duration settle_time = std::chrono::seconds(20);
  int lookups_needed = 2;  // that do not find the token, before it is submitted again
  Duration limit_retry = std::chrono::seconds(60);
  Duration limit_retry_longest = std::chrono::minutes(15);
  // For what the scheduler never showed and no limit bounds.
  Duration unseen_time = std::chrono::hours(24);
  // After a job that failed; after a second one in a row twice as long.
  Duration failure_retry = std::chrono::seconds(30);
  Duration failure_retry_longest = std::chrono::minutes(30);
  int failures_max = 10;
  RetryPolicy server{std::chrono::seconds(1), std::chrono::minutes(5), Duration::max()};
  // How long running jobs may take to end by themselves when the run is over: the server tells them
  // with their next heartbeat, and the last one is often just leaving.
  Duration finish_time = std::chrono::seconds(60);
  int cancel_tries = 5;
  Duration cancel_interval = std::chrono::seconds(2);
  bool once = false;
  bool cancel_on_exit = false;
  std::uint64_t seed = 0;  // of tokens and jitter
};

class AgentMachine {
 public:
  enum class Step {
    store,     // state(), durably; then stored()
    poll,      // then polled() or poll_failed()
    ask_plan,  // plan_request(); then plan_answered() or plan_failed()
    look_up,   // intent().token; then looked_up() or look_up_failed()
    submit,    // intent(); then submitted() or submit_failed()
    inspect,   // outcome of job_at_hand(); then inspected() or inspect_failed()
    settle,    // job_at_hand() with the server; then settled() or settle_failed()
    cancel,    // to_cancel(); then cancel_sent() or cancel_failed()
    wait,      // until wake_at(), or a signal
    over,      // exit_code(), reason()
  };

  AgentMachine(AgentSettings settings, AgentState restored, Instant now);

  // What to do now. The same question without an event in between has the same answer.
  [[nodiscard]] Step step(Instant now);

  [[nodiscard]] const AgentState& state() const { return state_; }
  [[nodiscard]] const Intent& intent() const { return *state_.intent; }
  [[nodiscard]] PlanRequest plan_request() const;
  [[nodiscard]] const TrackedJob& job_at_hand() const;
  [[nodiscard]] std::vector<JobView> to_cancel() const;
  [[nodiscard]] Instant wake_at() const { return wake_at_; }
  [[nodiscard]] const std::string& waiting_for() const { return waiting_for_; }
  // Live jobs that were still there when the agent gave up cancelling them.
  [[nodiscard]] std::vector<std::string> left() const;
  [[nodiscard]] int live_jobs() const;

  void stored();
  void polled(const std::vector<JobView>& jobs, Duration took, Instant now);
  void poll_failed(const Error& error, Instant now);
  void plan_answered(const PlanAnswer& answer, Instant now);
  void plan_failed(const Error& error, Instant now);
  void looked_up(const std::optional<JobView>& job, Instant now);
  void look_up_failed(const Error& error, Instant now);
  void submitted(const JobHandle& handle, Instant now);
  void submit_failed(const Error& error, Instant now);
  void inspected(const JobOutcome& outcome, Instant now);
  void inspect_failed(const Error& error, Instant now);
  // `delivered`: the server took an update that the job had left.
  void settled(Instant now, bool delivered = false);
  void settle_failed(const Error& error, Instant now);
  void cancel_sent(Instant now);
  void cancel_failed(const Error& error, Instant now);
  // A signal. Jobs stay, unless cancel_on_exit; a second one ends the cancelling too.
  void stop(const std::string& reason, Instant now);

  [[nodiscard]] int exit_code() const;
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  struct Alarm {
    Instant at{};
    int failures = 0;
  };
  struct Watch {  // what is known of a job for this life of the agent alone
    std::string token;
    Instant since{};         // tracked by this agent
    int missing = 0;         // polls in a row that did not show it
    bool inspected = false;  // its outcome was asked for after it went missing or ended
    Alarm inspect;
    Alarm settle;
  };

  [[nodiscard]] std::optional<Step> next_step(Instant now);
  [[nodiscard]] std::optional<Step> intent_step(Instant now);
  [[nodiscard]] std::optional<Step> ending_step(Instant now);
  void wait_until(Instant at, const char* what);
  void track(TrackedJob job, Instant now);
  void take_view(const JobView& view, Instant now);
  void take_missing(const std::vector<JobView>& views, Instant now);
  void find_surplus(const std::vector<JobView>& views);
  void end_run(const std::string& reason, Instant now);
  void note_end(const TrackedJob& ended, bool delivered, Instant now);
  void fail(const Error& error);
  void forget(const std::string& token);
  void schedule_poll(Instant now);
  void retry(Alarm& alarm, Instant now);
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] int count(JobPhase phase) const;
  [[nodiscard]] TrackedJob* job(const std::string& token);
  [[nodiscard]] Watch& watch(const std::string& token, Instant now);
  [[nodiscard]] std::string new_token();

  AgentSettings settings_;
  AgentState state_;
  Prng random_;

  std::vector<Watch> watches_;

  bool dirty_ = false;
  bool recovered_ = false;     // one poll has succeeded in this life
  bool tried_ = false;         // this life has called sbatch for the intent, in vain
  bool fresh_intent_ = false;  // this life has not called sbatch for the intent
  bool may_submit_ = false;    // the look-ups found nothing
  int lookups_ = 0;
  int lookups_needed_ = 0;
  Instant settled_by_{};  // look-ups before this do not count
  Alarm look_up_;
  Alarm limit_;
  std::string limit_reason_;
  Alarm plan_;
  Alarm failed_jobs_;  // since the last one that did not fail
  bool plan_asked_ = false;
  std::string plan_reason_;
  Duration poll_interval_{};
  Instant poll_at_{};
  std::optional<double> expected_wait_s_;
  std::vector<JobView> surplus_;
  std::string at_hand_;

  bool ending_ = false;  // nothing new is begun
  bool cancelling_ = false;
  Instant spare_running_until_{};
  bool spare_running_ = false;  // running jobs are not cancelled yet
  int cancels_ = 0;
  Instant cancel_at_{};
  Instant wake_at_{};
  std::string waiting_for_;
  bool over_ = false;
  std::string reason_;
  std::optional<Error> error_;
};

}  // namespace fedqueue
