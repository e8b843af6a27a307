#include "core/protocol/upload.h"

#include <algorithm>
#include <utility>

#include "core/base/assert.h"
#include "core/base/points.h"

namespace fedqueue {

bool may_pass(Code code) {
  switch (code) {
    case Code::network:
    case Code::network_name:
    case Code::network_refused:
    case Code::network_timeout:
    case Code::server_error:
    case Code::storage_full:
    case Code::try_again:
      return true;
    default:
      return false;
  }
}

Duration backoff(const RetryPolicy& policy, int failures, double jitter) {
  FEDQUEUE_ASSERT(failures >= 1 && jitter >= 0 && jitter < 1);
  Duration interval = policy.first;
  for (int i = 1; i < failures && interval < policy.longest; ++i) interval *= 2;
  interval = std::min(interval, policy.longest);
  return interval / 2 +
         Duration(static_cast<Duration::rep>(static_cast<double>(interval.count()) / 2 * jitter));
}

UploadMachine::UploadMachine(std::uint64_t bytes_total, RetryPolicy policy)
    : bytes_total_(bytes_total), policy_(policy) {}

void UploadMachine::offset_known(std::uint64_t offset) {
  FEDQUEUE_ASSERT(step_ == Step::probe);
  // More bytes than the file has can only be another file's leavings: the digest would not match.
  const std::uint64_t durable = offset > bytes_total_ ? 0 : offset;
  if (durable > offset_) failures_ = 0;  // it got somewhere
  offset_ = durable;
  if (FEDQUEUE_PLANTED(upload_from_wrong_offset) && durable > 0 && durable < bytes_total_)
    ++offset_;
  step_ = Step::send;
}

void UploadMachine::answered(UpdateAnswer answer) {
  FEDQUEUE_ASSERT(step_ == Step::probe || step_ == Step::send);
  answer_ = std::move(answer);
  step_ = Step::done;
}

void UploadMachine::failed(const Error& error, Duration elapsed, double jitter) {
  FEDQUEUE_ASSERT(step_ == Step::probe || step_ == Step::send);
  failing_for_ = failures_ == 0 ? Duration{} : failing_for_ + elapsed;
  ++failures_;
  if (!may_pass(error.code) || failing_for_ > policy_.give_up_after) {
    FEDQUEUE_MARK(upload_given_up);
    error_ = error;
    step_ = Step::failed;
    return;
  }
  delay_ = backoff(policy_, failures_, jitter);
  step_ = Step::wait;
}

void UploadMachine::waited() {
  FEDQUEUE_ASSERT(step_ == Step::wait);
  FEDQUEUE_MARK(upload_tried_again);
  step_ = Step::probe;
}

}  // namespace fedqueue
