// Updates: who may deliver what, and what becomes of it.
#include <algorithm>

#include "core/base/assert.h"
#include "core/base/points.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {

// An update that may be delivered: everything about it fits.
struct Engine::Delivery {
  AttemptId attempt_id;
  AttemptState* attempt = nullptr;
  Segment segment;
};

Result<Engine::Delivery> Engine::delivery(const FacilityId& facility_id, const UpdateId& id,
                                          const UpdateMetadata& metadata,
                                          const std::string& token) {
  const auto refuse = [&](Code code, const std::string& why, std::string cure = "") {
    return Error{code, "update " + id.str() + ": " + why, std::move(cure)};
  };
  const Result<UpdateParts> parts = parse_update_id(id.str());
  if (!parts) return parts.error();
  if (parts->facility != facility_id && !FEDQUEUE_PLANTED(owner_not_checked)) {
    return refuse(Code::identity, "it belongs to facility '" + parts->facility.str() +
                                      "', and this certificate to '" + facility_id.str() + "'");
  }
  AttemptState* owner = attempt(facility_id, parts->attempt);
  if (owner == nullptr || owner->token.empty()) {
    return refuse(Code::not_found,
                  "attempt " + parts->attempt.str() + " has not registered with this run");
  }
  if (!state_.finished.empty()) {
    return refuse(Code::run_finished, "the run is finished: " + state_.finished);
  }
  if (owner->phase == AttemptPhase::fenced) {
    FEDQUEUE_MARK(update_of_fenced);
    return refuse(Code::conflict, "a later start of its job took over");
  }
  if (owner->token != token && !FEDQUEUE_PLANTED(token_not_checked)) {
    FEDQUEUE_MARK(update_of_other_launch);
    return refuse(Code::conflict,
                  "another launch of attempt " + parts->attempt.str() + " took over");
  }
  if (!owner->outstanding || owner->outstanding->index != parts->segment) {
    FEDQUEUE_MARK(update_without_segment);
    return refuse(Code::conflict, "segment " + std::to_string(parts->segment) +
                                      " is not the one this attempt was given");
  }
  const Segment& segment = *owner->outstanding;
  if (metadata.base != segment.base) {
    FEDQUEUE_MARK(update_wrong_base);
    return refuse(Code::wrong_base, "it was trained from version " + std::to_string(metadata.base) +
                                        ", and the segment was from " +
                                        std::to_string(segment.base));
  }
  if (policy_->config().mixes_models() && !state_.models.contains(segment.base)) {
    return refuse(Code::wrong_base,
                  "its base, version " + std::to_string(segment.base) + ", is no longer kept");
  }
  if (metadata.steps_run > segment.local_steps && !FEDQUEUE_PLANTED(steps_not_checked)) {
    FEDQUEUE_MARK(update_too_many_steps);
    return refuse(Code::usage, "it claims " + std::to_string(metadata.steps_run) + " steps, and " +
                                   std::to_string(segment.local_steps) + " were assigned");
  }
  return Delivery{parts->attempt, owner, segment};
}

// Answers with the decision that was taken before, if there is one.
bool Engine::answered_before(const FacilityId& facility_id, const UpdateId& id) {
  const auto decided = state_.decisions.find(id);
  if (decided == state_.decisions.end()) return answer_is_forgotten(facility_id, id);
  if (decided->second.facility != facility_id) return false;
  FEDQUEUE_MARK(update_repeated);
  settle_next(id);
  answer(current_answer(decided->second));
  return true;
}

// Says so, if the update was decided and its answer is not kept any more.
bool Engine::answer_is_forgotten(const FacilityId& facility_id, const UpdateId& id) {
  const Result<UpdateParts> parts = parse_update_id(id.str());
  const auto owner = state_.facilities.find(facility_id);
  if (!parts || parts->facility != facility_id || owner == state_.facilities.end()) return false;
  const auto attempt = owner->second.attempts.find(parts->attempt);
  if (attempt == owner->second.attempts.end()) return false;
  if (parts->segment > attempt->second.segments_done) return false;
  answer(Error{Code::conflict,
               "update " + id.str() +
                   ": it was decided, and its answer was kept until two later ones of its job were",
               "Ask for the newest update of the job."});
  return true;
}

UpdateAnswer Engine::current_answer(const UpdateDecided& decision) const {
  UpdateAnswer reply = decision.answer;
  const auto next = state_.follow_ups.find(reply.id);
  if (next != state_.follow_ups.end()) reply.next = next->second;
  return reply;
}

void Engine::settle_next(const UpdateId& id) {
  const auto found = state_.decisions.find(id);
  if (found == state_.decisions.end()) return;  // forgotten, as later ones were delivered
  const UpdateDecided& decision = found->second;
  if (decision.answer.next.kind != Next::Kind::wait || state_.follow_ups.contains(id)) return;
  const AttemptId attempt_id = decision.attempt;
  const FacilityId owner_id = decision.facility;
  const FacilityState& owner = state_.facilities.at(owner_id);
  const auto attempt = owner.attempts.find(attempt_id);
  // Its job is forgotten, or a later update of it was delivered since.
  if (attempt == owner.attempts.end() || attempt->second.last_update != id) return;
  Next next = next_for(owner_id, attempt_id);
  if (next.kind == Next::Kind::wait) return;
  record(NextDecided{owner_id, attempt_id, id, std::move(next)});
}

// A group is placed anew when its version is out: the fastest first, so that the others can join.
void Engine::settle_members(std::vector<UpdateId> updates) {
  const auto pace_s = [this](const UpdateId& id) {
    const auto decision = state_.decisions.find(id);
    if (decision == state_.decisions.end()) return 0.0;
    return state_.facilities.at(decision->second.facility).pace.seconds().value_or(0);
  };
  std::stable_sort(updates.begin(), updates.end(),
                   [&](const UpdateId& a, const UpdateId& b) { return pace_s(a) < pace_s(b); });
  for (const UpdateId& id : updates) settle_next(id);
}

UpdateDecided Engine::decision_about(const Delivery& offer, const FacilityId& facility_id,
                                     const UpdateId& id, const UpdateMetadata& metadata) const {
  UpdateDecided decision;
  decision.facility = facility_id;
  decision.attempt = offer.attempt_id;
  decision.metadata = metadata;
  decision.answer.id = id;
  decision.steps_assigned = offer.segment.local_steps;
  decision.queue_wait_s = offer.attempt->registration.queue.queue_wait_s;
  decision.deadline_wait_s = offer.attempt->deadline_wait_s;
  decision.arrived_in = state_.latest;
  decision.stored_s = to_seconds(now_.time_since_epoch());
  decision.place = offer.attempt->place;
  return decision;
}

void Engine::on(const UploadOffered& event) {
  if (answered_before(event.facility, event.id)) return;
  const Result<Delivery> offer = delivery(event.facility, event.id, event.metadata, event.token);
  if (!offer) return answer(offer.error());
  const std::uint64_t model_bytes = state_.models.at(state_.latest).bytes;
  // Control variates come beside the delta; the header may be worded differently.
  const std::uint64_t bytes_max =
      (*policy_->config().control_variates ? 2 : 1) * model_bytes + (1u << 20);
  if (event.bytes > bytes_max) {
    return answer(Error{Code::too_large,
                        "update " + event.id.str() + ": it has " + std::to_string(event.bytes) +
                            " bytes, and the model has " + std::to_string(model_bytes),
                        "Send a delta with the model's own tensors."});
  }
}

void Engine::on(const UpdateStored& event) {
  if (answered_before(event.facility, event.id)) return;
  const Result<Delivery> offer = delivery(event.facility, event.id, event.metadata, event.token);
  if (!offer) return answer(offer.error());
  UpdateDecided decision = decision_about(*offer, event.facility, event.id, event.metadata);
  decision.digest = event.digest;
  decision.bytes = event.bytes;
  decision.norm = event.norm;
  const Admission admission = policy_->admit(arrival_of(decision), round_for(event.facility));
  decide(*offer, std::move(decision), admission);
  consider_closing(false);
}

void Engine::on(const UpdateRefused& event) {
  if (answered_before(event.facility, event.id)) return;
  const Result<Delivery> offer = delivery(event.facility, event.id, event.metadata, event.token);
  if (!offer) return answer(offer.error());
  UpdateDecided decision = decision_about(*offer, event.facility, event.id, event.metadata);
  decision.answer.code = event.why.code;
  decide(*offer, std::move(decision), {Admission::Kind::reject, false, event.why.message});
  consider_closing(false);
}

void Engine::decide(const Delivery& offer, UpdateDecided decision, Admission admission) {
  UpdateAnswer& reply = decision.answer;
  reply.late = admission.late;
  reply.reason = admission.reason;
  reply.staleness = state_.latest - decision.metadata.base;
  switch (admission.kind) {
    case Admission::Kind::count:
      reply.disposition = Disposition::counted;
      break;
    case Admission::Kind::buffer:
      reply.disposition = Disposition::buffered;
      break;
    case Admission::Kind::reject:
      reply.disposition = Disposition::rejected;
      break;
  }
  const bool rejected = reply.disposition == Disposition::rejected;
  if (rejected) FEDQUEUE_MARK(update_rejected);
  if (reply.late) FEDQUEUE_MARK(update_late);
  decision.held_back = admission.kind == Admission::Kind::buffer;
  if (rejected && reply.code == Code::internal) reply.code = Code::wrong_base;
  if (state_.reducing && reply.disposition == Disposition::counted) {
    FEDQUEUE_MARK(update_while_reducing);
    reply.disposition = Disposition::buffered;
    reply.reason = "round " + std::to_string(state_.latest + 1) + " has just closed; " +
                   "it counts in the next";
  }
  decision.answer_now = admission.answer_now;
  reply.next = next_after(*offer.attempt, rejected, admission.answer_now, decision.place);
  const UpdateId id = reply.id;
  record(std::move(decision));
  if (rejected) act(RemoveUpdate{id});
  settle_next(id);
  answer(current_answer(state_.decisions.at(id)));
}

// What the trainer does after this delivery. `wait`: it is not known yet; settle_next() decides.
Next Engine::next_after(const AttemptState& attempt, bool rejected, bool answer_now,
                        const GroupPlace& place) const {
  Next next;
  if (attempt.phase != AttemptPhase::assigned) {
    next.reason = "this job has lost its place";
    return next;
  }
  if (policy_->answers_after_publish() && !rejected && !answer_now) {
    next.kind = Next::Kind::wait;
    next.wait_s = answer_retry_s(place);
    next.reason = "answered when the update has been aggregated";
    return next;
  }
  if (policy_->has_more_segments(attempt.segments_done + 1)) {
    next.kind = Next::Kind::wait;
    next.wait_s = rejected ? 0.2 : plan_retry_s();
    next.reason = "another segment in this allocation";
    return next;
  }
  next.reason = "this job's segments are done";
  return next;
}

void Engine::on(const UpdateAsked& event) {
  if (answered_before(event.facility, event.id)) return;
  answer(Error{Code::not_found, "update " + event.id.str() + " is not known to this run", ""});
}

void Engine::on(const EvaluationArrived& event) {
  const Evaluation& evaluation = event.evaluation;
  if (evaluation.version < 0 || evaluation.version > state_.latest) {
    return answer(Error{Code::not_found,
                        "version " + std::to_string(evaluation.version) +
                            " is not published; the newest is " + std::to_string(state_.latest),
                        ""});
  }
  const auto found = state_.evaluations.find(evaluation.version);
  if (found != state_.evaluations.end() && found->second.accuracy == evaluation.accuracy &&
      found->second.loss == evaluation.loss && found->second.samples == evaluation.samples) {
    return;  // the reply was lost
  }
  record(EvaluationRecorded{evaluation});
}

}  // namespace fedqueue
