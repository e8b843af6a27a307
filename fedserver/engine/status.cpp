// The run as JSON: for `fedserver status`, dashboards, the status page and tests.
#include <nlohmann/json.hpp>

#include "core/protocol/fields.h"
#include "fedserver/engine/engine.h"

namespace fedqueue {

using nlohmann::json;

namespace {

constexpr std::size_t rounds_shown = 100;

json cell_json(const RoundCell& cell) {
  json out = {{"outcome", cell.outcome},
              {"steps_run", cell.steps_run},
              {"steps_assigned", cell.steps_assigned},
              {"staleness", cell.staleness},
              {"weight", cell.weight},
              {"loss", cell.loss}};
  put_optional(out, "queue_wait_s", cell.queue_wait_s);
  put_optional(out, "predicted_wait_s", cell.predicted_wait_s);
  return out;
}

json evaluation_json(const Evaluation& evaluation) {
  return {{"accuracy", evaluation.accuracy},
          {"loss", evaluation.loss},
          {"samples", evaluation.samples}};
}

}  // namespace

json Engine::facility_json(const FacilityId& id, const FacilityState& owner, Instant now) const {
  json out = {{"samples", owner.samples},
              {"participation", owner.participation.value_or(1)},
              {"updates_counted", owner.updates_counted},
              {"updates_late", owner.updates_late},
              {"updates_rejected", owner.updates_rejected},
              {"rounds_missed", owner.rounds_missed},
              {"jobs_failed", owner.jobs_failed},
              {"silent_s", to_seconds(now - owner.contact_at)},
              {"last_error", owner.last_error}};
  put_optional(out, "predicted_wait_s", owner.waits.predicted_s());
  put_optional(out, "last_wait_s", owner.last_wait_s);
  put_optional(out, "seconds_per_step", owner.step_time.seconds());
  put_optional(out, "sync_s", owner.sync_time.seconds());
  std::string state = active(owner) ? "idle" : "silent";
  if (owner.failed) state = "failed";
  if (owner.plan) {
    state = "queued";
    out["waiting_s"] = to_seconds(now - owner.plan_at);
    out["deadline_wait_s"] = owner.plan->deadline_wait_s;
  }
  if (owner.assigned) {
    const AttemptState& attempt = owner.attempts.at(*owner.assigned);
    state = "training";
    out["attempt"] = owner.assigned->str();
    out["steps_done"] = attempt.steps_done;
    if (attempt.outstanding) out["segment"] = *attempt.outstanding;
  }
  if (delivered(id) && !owner.assigned && !owner.plan) state = "delivered";
  out["state"] = state;
  return out;
}

std::string Engine::status(const std::optional<FacilityId>& viewer, Instant now) const {
  json out = {{"run", state_.run},
              {"policy", std::string(policy_->name())},
              {"versions_on_arrival", policy_->publishes_on_arrival()},
              {"average_versions", *config_.policy.effective().average_versions},
              {"version", state_.latest},
              {"round", state_.latest + 1},
              {"rounds_max", config_.rounds_max},
              {"round_open_s", to_seconds(now - state_.round_opened_at)},
              {"uptime_s", to_seconds(now.time_since_epoch())},
              {"state", !state_.finished.empty()  ? "finished"
                        : !state_.stalled.empty() ? "stalled"
                        : state_.reducing         ? "publishing"
                                                  : "open"},
              {"reason", !state_.finished.empty() ? state_.finished : state_.stalled},
              {"last_error", viewer ? "" : state_.last_error},
              {"updates_counted", state_.counted.size()},
              {"updates_buffered", state_.late.size()}};
  // Whoever judges a version must treat the inputs as the trainers do.
  if (const auto found = config_.training.find("normalize"); found != config_.training.end())
    out["normalize"] = found->second;
  if (state_.timer_at) out["timer_in_s"] = to_seconds(*state_.timer_at - now);
  if (state_.models.contains(state_.latest)) {
    const ModelRecord& model = state_.models.at(state_.latest);
    out["model"] = {{"version", model.version},
                    {"file", model.file},
                    {"sha256", model.sha256},
                    {"bytes", model.bytes}};
  }
  json facilities = json::object();
  for (const auto& [id, owner] : state_.facilities) {
    if (!viewer || *viewer == id) facilities[id.str()] = facility_json(id, owner, now);
  }
  out["facilities"] = std::move(facilities);
  json rounds = json::array();
  const std::size_t first =
      state_.rounds.size() > rounds_shown ? state_.rounds.size() - rounds_shown : 0;
  for (std::size_t i = first; i < state_.rounds.size(); ++i) {
    const RoundRecord& round = state_.rounds[i];
    json row = {{"version", round.version},
                {"cause", round.cause},
                {"open_s", round.open_s},
                {"published", round.published},
                {"step_norm", round.step_norm}};
    for (const auto& [id, cell] : round.cells) {
      if (!viewer || *viewer == id) row["facilities"][id.str()] = cell_json(cell);
    }
    const auto evaluation = state_.evaluations.find(round.version);
    if (evaluation != state_.evaluations.end()) {
      row["evaluation"] = evaluation_json(evaluation->second);
    }
    rounds.push_back(std::move(row));
  }
  out["rounds"] = std::move(rounds);
  json evaluations = json::object();
  for (const auto& [version, evaluation] : state_.evaluations) {
    evaluations[std::to_string(version)] = evaluation_json(evaluation);
  }
  out["evaluations"] = std::move(evaluations);
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

void Engine::on(const StatusRequested& event) { answer(status(event.viewer, now_)); }

// Everything that must survive a restart, and nothing that need not.
std::string Engine::durable_state() const {
  json out = {{"run", state_.run},
              {"latest", state_.latest},
              {"finished", state_.finished},
              {"stalled", state_.stalled},
              {"empty_timers", state_.empty_timers},
              {"opened_at", to_micros(state_.round_opened_at)}};
  const auto names = [](const std::vector<UpdateId>& ids) {
    json list = json::array();
    for (const UpdateId& id : ids) list.push_back(id.str());
    return list;
  };
  out["counted"] = names(state_.counted);
  out["late"] = names(state_.late);
  if (state_.reducing) out["reducing"] = encode_fact(Fact(*state_.reducing));
  if (state_.server_state) out["server_state"] = state_.server_state->sha256;
  for (const auto& [version, model] : state_.models) out["models"].push_back(model.sha256);
  for (const auto& [id, decision] : state_.decisions) {
    out["decisions"][id.str()] = encode(current_answer(decision));
  }
  for (const auto& [id, group] : state_.groups) {
    json members = json::array();
    for (const FacilityId& member : group.missing) members.push_back(member.str());
    out["groups"][std::to_string(id)] = {
        {"expected_s", group.expected_s}, {"latest_s", group.latest_s}, {"missing", members}};
  }
  put_optional(out, "turnaround_s", state_.turnaround.seconds());
  for (const auto& [id, owner] : state_.facilities) {
    json facility_out = facility_json(id, owner, owner.contact_at);
    facility_out.erase("state");
    facility_out.erase("steps_done");
    facility_out.erase("waiting_s");
    for (const auto& [attempt_id, attempt] : owner.attempts) {
      json row = {{"phase", to_text(attempt.phase)},
                  {"token", attempt.token},
                  {"nonce", attempt.registration.nonce},
                  {"segments_done", attempt.segments_done},
                  {"group", attempt.place.group}};
      if (attempt.outstanding) row["outstanding"] = *attempt.outstanding;
      facility_out["attempts"][attempt_id.str()] = std::move(row);
    }
    if (owner.plan) facility_out["plan"] = *owner.plan;
    put_optional(facility_out, "pace_s", owner.pace.seconds());
    out["facilities"][id.str()] = std::move(facility_out);
  }
  return out.dump();
}

}  // namespace fedqueue
