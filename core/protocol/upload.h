// The client's side of one resumable upload, as a pure state machine: it says what to ask the
// server next, and is told what came back. The link performs the requests; the simulator plays
// them.
//
//   probe ──offset──▶ send ──answer──▶ done
//     ▲                │
//     └──── cut ───────┘        failures that may pass: back off, then probe again
//                               failures that cannot: give up at once with the server's reason
//
// Source: docs/protocol.md, "Uploads". Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/protocol/messages.h"

namespace fedqueue {

// How to come back after a failure that may pass.
struct RetryPolicy {
  Duration first = std::chrono::milliseconds(500);
  Duration longest = std::chrono::seconds(30);
  Duration give_up_after = std::chrono::minutes(10);  // of uninterrupted failure
};

// True when the same request may succeed later: names that do not resolve, refused or lost
// connections, time-outs, 5xx and 429. Certificates, identities and refusals never pass by
// themselves.
[[nodiscard]] bool may_pass(Code code);

// The delay before attempt `failures` + 1 (failures ≥ 1): doubled each time, then spread by
// `jitter` in [0, 1) over the upper half of the interval.
[[nodiscard]] Duration backoff(const RetryPolicy& policy, int failures, double jitter);

class UploadMachine {
 public:
  enum class Step { probe, send, wait, done, failed };

  UploadMachine(std::uint64_t bytes_total, RetryPolicy policy = {});

  [[nodiscard]] Step step() const { return step_; }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }         // send: from here
  [[nodiscard]] Duration delay() const { return delay_; }                // wait: this long
  [[nodiscard]] const UpdateAnswer& answer() const { return *answer_; }  // done
  [[nodiscard]] const Error& error() const { return *error_; }           // failed

  // HEAD said how many bytes are durable (0 when the server does not know the update).
  void offset_known(std::uint64_t offset);
  // HEAD or PUT said that the update is decided.
  void answered(UpdateAnswer answer);
  // A request failed. `elapsed` is the time since the last request that got anywhere.
  void failed(const Error& error, Duration elapsed, double jitter);
  // The wait is over.
  void waited();

 private:
  Step step_ = Step::probe;
  std::uint64_t bytes_total_;
  std::uint64_t offset_ = 0;
  RetryPolicy policy_;
  int failures_ = 0;
  Duration failing_for_{};
  Duration delay_{};
  std::optional<UpdateAnswer> answer_;
  std::optional<Error> error_;
};

}  // namespace fedqueue
