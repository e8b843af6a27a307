// The journal's form of every fact (docs/durability.md). A field that is added later gets a default
// when an old journal lacks it, so that old runs go on.
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "fedserver/engine/events.h"

// NOLINTBEGIN: names are given by nlohmann-json
namespace nlohmann {

template <typename Tag>
struct adl_serializer<fedqueue::Name<Tag>> {
  static void to_json(json& out, const fedqueue::Name<Tag>& name) { out = name.str(); }
  static void from_json(const json& in, fedqueue::Name<Tag>& name) {
    name = fedqueue::Name<Tag>(in.get<std::string>());
  }
};

template <typename T>
struct adl_serializer<std::optional<T>> {
  static void to_json(json& out, const std::optional<T>& value) {
    out = value ? json(*value) : json(nullptr);
  }
  static void from_json(const json& in, std::optional<T>& value) {
    value = in.is_null() ? std::nullopt : std::optional<T>(in.get<T>());
  }
};

}  // namespace nlohmann
// NOLINTEND

namespace fedqueue {

void to_json(nlohmann::json& out, const Error& error) {
  out = {{"code", code_name(error.code)}, {"message", error.message}, {"cure", error.cure}};
}
void from_json(const nlohmann::json& in, Error& error) {
  error.code = code_named(in.at("code").get<std::string>());
  error.message = in.at("message").get<std::string>();
  error.cure = in.at("cure").get<std::string>();
}

void to_json(nlohmann::json& out, const ServerStep& step) {
  out = {{"optimizer", std::string(server_optimizer_name(step.optimizer))},
         {"learning_rate", step.learning_rate},
         {"momentum", step.momentum},
         {"beta2", step.beta2},
         {"tau", step.tau},
         {"delay", step.delay}};
}
void from_json(const nlohmann::json& in, ServerStep& step) {
  const ServerStep usual;
  const auto optimizer =
      parse_server_optimizer(in.value("optimizer", std::string(server_optimizer_name({}))));
  if (!optimizer) throw std::invalid_argument(optimizer.error().message);
  step.optimizer = *optimizer;
  step.learning_rate = in.value("learning_rate", usual.learning_rate);
  step.momentum = in.value("momentum", usual.momentum);
  step.beta2 = in.value("beta2", usual.beta2);
  step.tau = in.value("tau", usual.tau);
  step.delay = in.value("delay", usual.delay);
}

#define FEDQUEUE_FACT NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT

FEDQUEUE_FACT(ModelRecord, version, file, sha256, bytes)
FEDQUEUE_FACT(ServerState, version, file, sha256, bytes)
FEDQUEUE_FACT(JobRegistration, attempt, nonce, plan_key, ranks, queue)
FEDQUEUE_FACT(GroupPlace, group, expected_s, latest_s)
FEDQUEUE_FACT(ReduceInput, id, facility, base, staleness, weight)
FEDQUEUE_FACT(RunOpened, run, initial)
FEDQUEUE_FACT(FacilityJoined, facility, samples)
FEDQUEUE_FACT(PlanGiven, facility, plan, budget_s, place)
FEDQUEUE_FACT(AttemptStarted, facility, registration, token, deadline_wait_s)
FEDQUEUE_FACT(AttemptRelaunched, facility, attempt, nonce, token)
FEDQUEUE_FACT(AttemptRelieved, facility, attempt, reason)
FEDQUEUE_FACT(AttemptFenced, facility, attempt, reason)
FEDQUEUE_FACT(AttemptEnded, facility, attempt, state, detail, failed)
FEDQUEUE_FACT(SegmentAssigned, facility, attempt, segment, place)
FEDQUEUE_FACT(NextDecided, facility, attempt, update, next)
FEDQUEUE_FACT(UpdateDecided, facility, attempt, metadata, digest, bytes, norm, steps_assigned,
              queue_wait_s, deadline_wait_s, arrived_in, held_back, stored_s, place, answer_now,
              answer)
FEDQUEUE_FACT(RoundTimedOut, version, times)
FEDQUEUE_FACT(ReduceStarted, input_version, updates, kept_late, rebuild_models, unweighted_buffers,
              keep, step, control_weight, state, cause, participation, closed_groups)
FEDQUEUE_FACT(UpdatesDropped, ids)
FEDQUEUE_FACT(ReduceStalled, input_version, why)
FEDQUEUE_FACT(Published, model, step_norm, state)
FEDQUEUE_FACT(ModelsPruned, below)
FEDQUEUE_FACT(EvaluationRecorded, evaluation)
FEDQUEUE_FACT(RunStalled, reason)
FEDQUEUE_FACT(RunFinished, reason)

#undef FEDQUEUE_FACT

namespace {

// One name for each alternative of Fact, in its order.
constexpr const char* kinds[] = {
    "run-opened",          "facility-joined",  "plan-given",      "attempt-started",
    "attempt-relaunched",  "attempt-relieved", "attempt-fenced",  "attempt-ended",
    "segment-assigned",    "update-decided",   "round-timed-out", "reduce-started",
    "updates-dropped",     "reduce-stalled",   "published",       "models-pruned",
    "evaluation-recorded", "run-stalled",      "run-finished",    "next-decided"};
static_assert(std::size(kinds) == std::variant_size_v<Fact>);

template <std::size_t Index = 0>
Result<Fact> decode_as(std::string_view kind, std::string_view text) {
  if constexpr (Index < std::variant_size_v<Fact>) {
    if (kind != kinds[Index]) return decode_as<Index + 1>(kind, text);
    try {
      return Fact(nlohmann::json::parse(text).get<std::variant_alternative_t<Index, Fact>>());
    } catch (const std::exception& fault) {
      return Error{Code::journal,
                   "read the journalled fact '" + std::string(kind) + "': " + fault.what(),
                   "The journal was damaged or written by a newer version of fedserver."};
    }
  } else {
    return Error{Code::journal,
                 "the journal has a fact of unknown kind '" + std::string(kind) + "'",
                 "It was written by a newer version of fedserver; use that version."};
  }
}

}  // namespace

const char* fact_kind(const Fact& fact) { return kinds[fact.index()]; }

std::string encode_fact(const Fact& fact) {
  return std::visit(
      [](const auto& value) {
        return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      },
      fact);
}

Result<Fact> decode_fact(std::string_view kind, std::string_view text) {
  return decode_as(kind, text);
}

}  // namespace fedqueue
