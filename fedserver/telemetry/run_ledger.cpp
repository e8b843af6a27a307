#include "fedserver/telemetry/run_ledger.h"

namespace fedqueue {

RunLedger::Rows RunLedger::fold(const Fact& fact, Instant at) {
  reduce_s_.reset();
  if (std::holds_alternative<RunOpened>(fact)) opened_at_ = at;
  if (const auto* joined = std::get_if<FacilityJoined>(&fact)) {
    samples_[joined->facility] = joined->samples;
  } else if (const auto* planned = std::get_if<PlanGiven>(&fact)) {
    plans_[planned->facility] = {planned->budget_s, planned->plan.predicted_wait_s};
  } else if (const auto* started = std::get_if<AttemptStarted>(&fact)) {
    work_[{started->facility, started->registration.attempt}].plan = plans_[started->facility];
  } else if (const auto* assigned = std::get_if<SegmentAssigned>(&fact)) {
    work_[{assigned->facility, assigned->attempt}].learning_rate = assigned->segment.learning_rate;
  } else if (const auto* decided = std::get_if<UpdateDecided>(&fact)) {
    decide(*decided, at);
  } else if (const auto* dropped = std::get_if<UpdatesDropped>(&fact)) {
    for (const UpdateId& id : dropped->ids) waiting_.erase(id);
  } else if (const auto* ended = std::get_if<AttemptEnded>(&fact)) {
    work_.erase({ended->facility, ended->attempt});
  } else if (const auto* reducing = std::get_if<ReduceStarted>(&fact)) {
    reduce_at_ = at;
    return close(*reducing);
  } else if (std::holds_alternative<Published>(fact)) {
    reduce_s_ = to_seconds(at - reduce_at_);
    opened_at_ = at;
  }
  return {};
}

void RunLedger::decide(const UpdateDecided& fact, Instant at) {
  const auto work = work_.find({fact.facility, fact.attempt});
  RoundRow row;
  row.facility = fact.facility;
  row.admitted = fact.answer.disposition != Disposition::rejected && !fact.held_back;
  row.queue_wait_s = fact.queue_wait_s;
  row.deadline_s = fact.deadline_wait_s;
  row.steps_assigned = fact.steps_assigned;
  row.arrival_s = to_seconds(at - opened_at_);
  if (work != work_.end()) {
    row.predicted_wait_s = work->second.plan.predicted_wait_s;
    row.budget_s = work->second.plan.budget_s;
    row.learning_rate = work->second.learning_rate;
  }
  arrived_.push_back(std::move(row));
  if (fact.answer.disposition != Disposition::rejected) waiting_[fact.answer.id] = fact;
}

RunLedger::Rows RunLedger::close(const ReduceStarted& fact) {
  Rows rows;
  rows.round = fact.input_version + 1;
  rows.round_rows.swap(arrived_);
  double samples = 0;
  for (const auto& [facility, count] : samples_) samples += static_cast<double>(count);
  for (const ReduceInput& input : fact.updates) {
    UpdateRow row;
    row.facility = input.facility;
    row.base = input.base;
    row.staleness = input.staleness;
    row.weight = input.weight;
    if (samples > 0) {
      row.sample_share = static_cast<double>(samples_[input.facility]) / samples;
    }
    if (const auto found = waiting_.find(input.id); found != waiting_.end()) {
      row.steps_run = found->second.metadata.steps_run;
      row.bytes = found->second.bytes;
      row.loss = found->second.metadata.loss;
      waiting_.erase(found);
    }
    rows.update_rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace fedqueue
