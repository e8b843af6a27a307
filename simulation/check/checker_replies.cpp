// Replies, files, restarts and jobs.
#include <algorithm>

#include "core/base/digest.h"
#include "core/protocol/messages.h"
#include "simulation/check/checker.h"

namespace fedqueue::simulation {
namespace {

std::string whole_path(const UpdateId& id) {
  return "/server/updates/" + id.str() + ".safetensors";
}

}  // namespace

// --- restarts and files

void Checker::on_server_ending(const Engine& engine) { durable_state_ = engine.durable_state(); }

void Checker::on_server_died(const std::string&) { durable_state_.reset(); }

void Checker::on_server_started(const Engine& engine, const SimulatedDisk& disk) {
  catch_up();
  if (durable_state_ && *durable_state_ != engine.durable_state()) {
    violation("the state after the restart is not the state before");
  }
  durable_state_.reset();
  check_files(engine.state(), disk);
}

// Everything that the state refers to has survived whatever ended the last process.
void Checker::check_files(const RunState& state, const SimulatedDisk& disk) {
  const FilesInUse files = files_in_use(state);
  for (const UpdateId& id : files.updates) {
    const SharedBytes content = disk.durable_content(whole_path(id));
    const auto decision = decisions_.find(id);
    if (!content || decision == decisions_.end() ||
        xxh128_hex(*content) != decision->second.digest) {
      violation("update " + id.str() + " was acknowledged, and is not on the disk");
    }
  }
  for (const auto& [version, model] : state.models) {
    const SharedBytes content = disk.durable_content("/server/models/" + model.file);
    if (!content || sha256_hex(*content) != model.sha256) {
      violation("version " + std::to_string(version) + " is kept, and is not on the disk");
    }
  }
}

void Checker::on_turn(const Engine& engine) {
  catch_up();
  const RunState& state = engine.state();
  if (engine.policy().round_timer_s() && !state.reducing && state.finished.empty() &&
      !state.timer_at) {
    violation("a round is open, and no timer is armed");
  }
  check_models(state);
  for (const auto& [id, facility] : state.facilities) check_attempts(id, facility, state);
}

void Checker::check_attempts(const FacilityId& id, const FacilityState& facility,
                             const RunState& state) {
  int assigned = 0;
  std::map<std::string, int> newest;  // restart count of each job, of those that registered
  for (const auto& [attempt_id, attempt] : facility.attempts) {
    if (attempt.token.empty()) continue;
    const Result<AttemptParts> parts = parse_attempt_id(attempt_id.str());
    if (parts) newest[parts->job_id] = std::max(newest[parts->job_id], parts->restart_count);
  }
  for (const auto& [attempt_id, attempt] : facility.attempts) {
    const bool is_assigned = attempt.phase == AttemptPhase::assigned;
    assigned += is_assigned ? 1 : 0;
    if (is_assigned && attempt.outstanding && !state.models.contains(attempt.outstanding->base)) {
      violation("version " + std::to_string(attempt.outstanding->base) + " is gone, and attempt " +
                attempt_id.str() + " starts from it");
    }
    const Result<AttemptParts> parts = parse_attempt_id(attempt_id.str());
    const bool has_rights = is_assigned || attempt.phase == AttemptPhase::relieved;
    if (parts && has_rights && newest[parts->job_id] > parts->restart_count) {
      violation("attempt " + attempt_id.str() + " of " + id.str() +
                " may deliver although its job was started again");
    }
  }
  if (assigned > 1) violation("facility " + id.str() + " has two assigned attempts");
}

// --- replies

void Checker::on_reply(const FacilityId& peer, const Request& request, const Reply& reply,
                       const SimulatedDisk& disk) {
  catch_up();
  if (reply.offset) check_offset(request, reply, disk);
  if (reply.status >= 400) return;
  switch (request.kind) {
    case Request::Kind::plan: {
      const Result<PlanAnswer> plan = decode<PlanAnswer>(reply.body);
      if (plan && plan->verb == PlanAnswer::Verb::submit && plans_[peer] != plan->key) {
        violation("a plan is told and not journalled");
      }
      return;
    }
    case Request::Kind::enrol: {
      const Result<JobAnswer> job = decode<JobAnswer>(reply.body);
      const Result<JobRegistration> asked = decode<JobRegistration>(request.body);
      if (job && asked && !told_.contains({{peer, asked->attempt}, job->token})) {
        violation("a token is told and not journalled");
      }
      return;
    }
    case Request::Kind::put:
    case Request::Kind::answer:
      return check_update_reply(peer, request, reply, disk);
    case Request::Kind::probe:
      if (reply.stored && !decisions_.contains(request.update)) {
        violation("update " + request.update.str() + " is said to be stored and not journalled");
      }
      return;
    default:
      return;
  }
}

void Checker::check_update_reply(const FacilityId& peer, const Request& request, const Reply& reply,
                                 const SimulatedDisk& disk) {
  const Result<UpdateAnswer> answer = decode<UpdateAnswer>(reply.body);
  if (!answer) return;  // 202: more is to come
  const std::string name = "update " + request.update.str();
  const auto decided = decisions_.find(request.update);
  if (decided == decisions_.end()) {
    return violation(name + " is acknowledged and not journalled");
  }
  const UpdateDecided& decision = decided->second;
  if (decision.facility != peer) violation(name + " is answered to " + peer.str());
  UpdateAnswer expected = decision.answer;
  const bool early = reply.body == encode(expected);
  const auto follow_up = follow_ups_.find(request.update);
  if (follow_up != follow_ups_.end()) expected.next = follow_up->second;
  if (reply.body == encode(expected)) {
    if (follow_up != follow_ups_.end()) followed_.insert(request.update);
  } else if (!early || followed_.contains(request.update)) {
    violation(name + " is answered otherwise than journalled");
  }
  if (reply.status != 201) return;
  // This request brought it to its decision.
  if (deciding_tokens_[request.update] != request.token) {
    violation(name + " was taken from another launch than the newest");
  }
  if (decision.answer.disposition == Disposition::rejected) return;
  if (xxh128_hex(*request.content) != request.digest) {
    violation(name + " was taken with other bytes than announced");
  }
  if (used_.contains(request.update) || dropped_.contains(request.update)) return;
  const SharedBytes content = disk.durable_content(whole_path(request.update));
  if (!content || *content != *request.content) {
    violation(name + " is acknowledged and not durable");
  }
}

void Checker::check_offset(const Request& request, const Reply& reply, const SimulatedDisk& disk) {
  const SharedBytes part =
      disk.durable_content("/server/uploads/" + request.update.str() + ".part");
  const std::uint64_t durable = part ? part->size() : 0;
  if (*reply.offset > durable) {
    violation(std::to_string(*reply.offset) + " bytes of update " + request.update.str() +
              " are said to be durable, and " + std::to_string(durable) + " are");
  }
}

// --- facilities

void Checker::on_job_submitted(const FacilityId& id, const std::string& token,
                               const std::string& job) {
  const Facility& facility = *world_->facilities().at(id);
  int live = 0;
  int of_token = 0;
  for (const auto& [number, known] : world_->facilities().at(id)->scheduler().jobs()) {
    if (known.phase == JobPhase::ended) continue;
    ++live;
    of_token += known.request.token == token ? 1 : 0;
  }
  // A scheduler that hides its jobs from every question cannot be helped; the server fences.
  if (scenario_.rates.hides > 0) return;
  if (of_token > 1) violation("job " + job + " is a second live job of one intent");
  if (live > facility.setup().agent.jobs_max) {
    violation("facility " + id.str() + " has " + std::to_string(live) + " live jobs");
  }
}

std::string Checker::launch_of(const FacilityId& facility, const Session& session) {
  const JobRegistration& registration = session.settings().registration;
  return facility.str() + " " + registration.attempt.str() + " " + registration.nonce;
}

void Checker::on_process_started(const FacilityId& facility, const AttemptId& attempt) {
  launched_[{facility, attempt}].push_back(world_->clock().now());
}

void Checker::on_process_ended(const FacilityId& facility, const AttemptId& attempt,
                               const Session* session) {
  if (session == nullptr || session->step() != Session::Step::over || !session->error()) return;
  if (!may_pass(session->error()->code)) return;
  // Of several launches it is not known here which one ended.
  const std::vector<Instant>& launched = launched_[{facility, attempt}];
  if (launched.size() != 1) return;
  const Instant now = world_->clock().now();
  const Duration lived = now - launched.front();
  const std::optional<Instant> until = session->train_until();
  const bool near_its_end = until && *until - now < session->settings().retry.longest * 2;
  // Its last wait would have ended beyond that time.
  const RetryPolicy& retry = session->settings().retry;
  if (lived < retry.give_up_after - retry.longest && !near_its_end) {
    violation("attempt " + attempt.str() + " of " + facility.str() +
              " gave up too early: " + session->error()->message);
  }
}

void Checker::on_session_fenced(const FacilityId& facility, const Session& session) {
  fenced_launches_.insert(launch_of(facility, session));
}

void Checker::on_session_sends(const FacilityId& facility, const Session& session,
                               Request::Kind kind) {
  const std::string launch = launch_of(facility, session);
  if (fenced_launches_.contains(launch)) {
    violation("launch " + launch + " was replaced and sends '" + to_text(kind) + "'");
  }
}

}  // namespace fedqueue::simulation
