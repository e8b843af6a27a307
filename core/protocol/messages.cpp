#include "core/protocol/messages.h"

#include <nlohmann/json.hpp>

#include "core/protocol/fields.h"

namespace fedqueue {

using nlohmann::json;

const char* to_text(PlanAnswer::Verb verb) {
  switch (verb) {
    case PlanAnswer::Verb::submit:
      return "submit";
    case PlanAnswer::Verb::wait:
      return "wait";
    case PlanAnswer::Verb::stop:
      return "stop";
  }
  return "wait";
}

const char* to_text(Next::Kind kind) {
  switch (kind) {
    case Next::Kind::segment:
      return "segment";
    case Next::Kind::wait:
      return "wait";
    case Next::Kind::stop:
      return "stop";
  }
  return "stop";
}

const char* to_text(HeartbeatAnswer::State state) {
  switch (state) {
    case HeartbeatAnswer::State::go_on:
      return "go on";
    case HeartbeatAnswer::State::finish:
      return "finish";
    case HeartbeatAnswer::State::fenced:
      return "fenced";
  }
  return "fenced";
}

const char* to_text(Disposition disposition) {
  switch (disposition) {
    case Disposition::counted:
      return "counted";
    case Disposition::buffered:
      return "buffered";
    case Disposition::rejected:
      return "rejected";
  }
  return "rejected";
}

// --- to JSON
// ---------------------------------------------------------------------------------------

void to_json(json& out, const Segment& value) {
  out = {{"index", value.index},
         {"base", value.base},
         {"local_steps", value.local_steps},
         {"learning_rate", value.learning_rate}};
}

void to_json(json& out, const Next& value) {
  out = {{"kind", to_text(value.kind)}, {"reason", value.reason}};
  if (value.kind == Next::Kind::segment) out["segment"] = value.segment;
  if (value.kind == Next::Kind::wait) out["wait_s"] = value.wait_s;
}

void to_json(json& out, const QueueRecord& value) {
  out = {{"held_s", value.held_s}};
  put_optional(out, "queue_wait_s", value.queue_wait_s);
  put_optional(out, "time_limit_s", value.time_limit_s);
  put_optional(out, "remaining_s", value.remaining_s);
}

void to_json(json& out, const PlanAnswer& value) {
  out = {{"verb", to_text(value.verb)}, {"reason", value.reason}};
  if (value.verb == PlanAnswer::Verb::wait) out["retry_after_s"] = value.retry_after_s;
  if (value.verb != PlanAnswer::Verb::submit) return;
  out["key"] = value.key;
  out["local_steps"] = value.local_steps;
  out["learning_rate"] = value.learning_rate;
  out["time_limit_s"] = value.time_limit_s;
  out["deadline_wait_s"] = value.deadline_wait_s;
  put_optional(out, "predicted_wait_s", value.predicted_wait_s);
  if (value.base >= 0) out["base"] = value.base;
}

void to_json(json& out, const UpdateMetadata& value) {
  out = {{"base", value.base},
         {"steps_run", value.steps_run},
         {"seconds_per_step", value.seconds_per_step},
         {"train_seconds", value.train_seconds},
         {"overhead_s", value.overhead_s},
         {"loss", value.loss},
         {"samples", value.samples}};
}

void to_json(json& out, const UpdateAnswer& value) {
  out = {{"id", value.id.str()},         {"disposition", to_text(value.disposition)},
         {"reason", value.reason},       {"late", value.late},
         {"staleness", value.staleness}, {"next", value.next}};
  if (value.disposition == Disposition::rejected) out["code"] = code_name(value.code);
}

void to_json(json& out, const Evaluation& value) {
  out = {{"version", value.version},
         {"accuracy", value.accuracy},
         {"loss", value.loss},
         {"samples", value.samples}};
}

namespace {

// One line, whatever bytes a peer put into a text.
std::string line(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

std::string encode(const PlanRequest& value) {
  json out = {{"key", value.key},
              {"pending_jobs", value.pending_jobs},
              {"running_jobs", value.running_jobs}};
  put_optional(out, "expected_wait_s", value.expected_wait_s);
  return line(out);
}

std::string encode(const PlanAnswer& value) { return line(json(value)); }
std::string encode(const UpdateMetadata& value) { return line(json(value)); }
std::string encode(const UpdateAnswer& value) { return line(json(value)); }
std::string encode(const Evaluation& value) { return line(json(value)); }

std::string encode(const JobRegistration& value) {
  return line({{"attempt", value.attempt.str()},
               {"nonce", value.nonce},
               {"plan_key", value.plan_key},
               {"ranks", value.ranks},
               {"queue", value.queue}});
}

std::string encode(const JobAnswer& value) {
  return line({{"token", value.token},
               {"heartbeat_s", value.heartbeat_s},
               {"lease_s", value.lease_s},
               {"training", value.training},
               {"next", value.next}});
}

std::string encode(const Heartbeat& value) {
  return line({{"token", value.token}, {"steps_done", value.steps_done}});
}

std::string encode(const HeartbeatAnswer& value) {
  return line({{"state", to_text(value.state)}, {"reason", value.reason}});
}

std::string encode(const JobEnd& value) {
  return line({{"token", value.token}, {"state", value.state}, {"detail", value.detail}});
}

std::string encode(const Problem& value) {
  return line({{"type", std::string("urn:fedqueue:problem:") + code_name(value.error.code)},
               {"title", code_name(value.error.code)},
               {"status", value.status},
               {"detail", value.error.message},
               {"cure", value.error.cure}});
}

// --- from JSON
// -------------------------------------------------------------------------------------

void from_json(const json& in, Segment& value) {
  const Fields fields(in);
  value.index = static_cast<int>(fields.integer("index", 1, 1'000'000));
  value.base = fields.integer("base");
  value.local_steps = fields.integer("local_steps", 1, 1'000'000'000);
  value.learning_rate = fields.real("learning_rate", 0, 1e6);
}

void from_json(const json& in, Next& value) {
  const Fields fields(in);
  value.kind = fields.word("kind", {Next::Kind::segment, Next::Kind::wait, Next::Kind::stop});
  value.reason = fields.text_or("reason", "");
  if (value.kind == Next::Kind::segment) value.segment = fields.at("segment").get<Segment>();
  if (value.kind == Next::Kind::wait) value.wait_s = fields.real("wait_s", 0, 1e7);
}

void from_json(const json& in, QueueRecord& value) {
  const Fields fields(in);
  value.queue_wait_s = fields.optional_real("queue_wait_s");
  value.held_s = fields.real_or("held_s", 0);
  value.time_limit_s = fields.optional_real("time_limit_s");
  value.remaining_s = fields.optional_real("remaining_s");
}

void from_json(const json& in, PlanAnswer& value) {
  const Fields fields(in);
  value.verb = fields.word(
      "verb", {PlanAnswer::Verb::submit, PlanAnswer::Verb::wait, PlanAnswer::Verb::stop});
  value.reason = fields.text_or("reason", "");
  value.retry_after_s = fields.real_or("retry_after_s", 0);
  if (value.verb != PlanAnswer::Verb::submit) return;
  value.key = fields.text("key", 200);
  value.local_steps = fields.integer("local_steps", 1, 1'000'000'000);
  value.learning_rate = fields.real("learning_rate", 0, 1e6);
  value.time_limit_s = fields.real_or("time_limit_s", 0);
  value.deadline_wait_s = fields.real_or("deadline_wait_s", 0);
  value.predicted_wait_s = fields.optional_real("predicted_wait_s");
  value.base = fields.integer_or("base", -1);
}

void from_json(const json& in, UpdateMetadata& value) {
  const Fields fields(in);
  value.base = fields.integer("base");
  value.steps_run = fields.integer("steps_run", 0, 1'000'000'000);
  value.seconds_per_step = fields.real_or("seconds_per_step", 0);
  value.train_seconds = fields.real_or("train_seconds", 0);
  value.overhead_s = fields.real_or("overhead_s", 0);
  value.loss = fields.has("loss") ? fields.real("loss", -1e15, 1e15) : 0;
  value.samples = fields.integer_or("samples", 0);
}

void from_json(const json& in, UpdateAnswer& value) {
  const Fields fields(in);
  value.id = UpdateId(fields.text("id", 200));
  value.disposition = fields.word(
      "disposition", {Disposition::counted, Disposition::buffered, Disposition::rejected});
  value.reason = fields.text_or("reason", "");
  value.late = fields.flag_or("late", false);
  value.staleness = fields.integer_or("staleness", 0);
  value.code = code_named(fields.text_or("code", "internal"));
  value.next = fields.at("next").get<Next>();
}

void from_json(const json& in, Evaluation& value) {
  const Fields fields(in);
  value.version = fields.integer("version");
  value.accuracy = fields.real("accuracy", 0, 1);
  value.loss = fields.real("loss", -1e15, 1e15);
  value.samples = fields.integer("samples", 1);
}

namespace {

void read(const Fields& fields, PlanRequest& value) {
  value.key = fields.text("key", 200);
  value.pending_jobs = static_cast<int>(fields.integer_or("pending_jobs", 0));
  value.running_jobs = static_cast<int>(fields.integer_or("running_jobs", 0));
  value.expected_wait_s = fields.optional_real("expected_wait_s");
  if (value.key.empty()) throw FieldError("field 'key' must not be empty");
}

void read(const Fields& fields, JobRegistration& value) {
  const std::string attempt = fields.text("attempt", 100);
  if (const auto parts = parse_attempt_id(attempt); !parts) {
    throw FieldError("field 'attempt': " + parts.error().message);
  }
  value.attempt = AttemptId(attempt);
  value.nonce = fields.text("nonce", 100);
  value.plan_key = fields.has("plan_key") ? fields.text("plan_key", 200) : "";
  value.ranks = static_cast<int>(fields.integer("ranks", 1, 10'000'000));
  value.queue = fields.at("queue").get<QueueRecord>();
  if (value.nonce.empty()) throw FieldError("field 'nonce' must not be empty");
}

void read(const Fields& fields, JobAnswer& value) {
  value.token = fields.text("token", 200);
  value.heartbeat_s = fields.real("heartbeat_s");
  value.lease_s = fields.real("lease_s");
  const json& training = fields.at("training");
  if (!training.is_object()) throw FieldError("field 'training' must be an object of texts");
  for (const auto& [name, setting] : training.items()) {
    if (!setting.is_string()) throw FieldError("field 'training." + name + "' must be a text");
    value.training[name] = setting.get<std::string>();
  }
  value.next = fields.at("next").get<Next>();
}

void read(const Fields& fields, Heartbeat& value) {
  value.token = fields.text("token", 200);
  value.steps_done = fields.integer_or("steps_done", 0);
}

void read(const Fields& fields, HeartbeatAnswer& value) {
  using State = HeartbeatAnswer::State;
  value.state = fields.word("state", {State::go_on, State::finish, State::fenced});
  value.reason = fields.text_or("reason", "");
}

void read(const Fields& fields, JobEnd& value) {
  value.token = fields.has("token") ? fields.text("token", 200) : "";
  value.state = fields.text("state", 100);
  value.detail = fields.text_or("detail", "");
}

void read(const Fields& fields, Problem& value) {
  value.status = static_cast<int>(fields.integer_or("status", 500));
  value.error.code = code_named(fields.text("title", 100));
  value.error.message = fields.text("detail", 8000);
  value.error.cure = fields.has("cure") ? fields.text("cure", 8000) : "";
}

// Reads a whole document with `fill`, turning whatever is wrong with it into one usage error.
template <typename T, typename Fill>
Result<T> decode_with(std::string_view text, const char* what, Fill fill) {
  const auto refuse = [what](const std::string& why) {
    return Error{Code::usage, std::string("read ") + what + ": " + why,
                 "See docs/protocol.md for the message's fields."};
  };
  if (text.size() > json_bytes_max) {
    return refuse("it is longer than " + std::to_string(json_bytes_max) + " bytes");
  }
  try {
    const json document = json::parse(text);
    T value;
    fill(document, value);
    return value;
  } catch (const std::exception& fault) {
    return refuse(fault.what());
  }
}

template <typename T>
Result<T> decode_fields(std::string_view text, const char* what) {
  return decode_with<T>(text, what, [](const json& in, T& value) { read(Fields(in), value); });
}

template <typename T>
Result<T> decode_value(std::string_view text, const char* what) {
  return decode_with<T>(text, what, [](const json& in, T& value) { from_json(in, value); });
}

}  // namespace

template <>
Result<PlanRequest> decode(std::string_view text) {
  return decode_fields<PlanRequest>(text, "a plan request");
}
template <>
Result<PlanAnswer> decode(std::string_view text) {
  return decode_value<PlanAnswer>(text, "a plan");
}
template <>
Result<JobRegistration> decode(std::string_view text) {
  return decode_fields<JobRegistration>(text, "a job registration");
}
template <>
Result<JobAnswer> decode(std::string_view text) {
  return decode_fields<JobAnswer>(text, "a job's answer");
}
template <>
Result<Heartbeat> decode(std::string_view text) {
  return decode_fields<Heartbeat>(text, "a heartbeat");
}
template <>
Result<HeartbeatAnswer> decode(std::string_view text) {
  return decode_fields<HeartbeatAnswer>(text, "a heartbeat's answer");
}
template <>
Result<JobEnd> decode(std::string_view text) {
  return decode_fields<JobEnd>(text, "a job's end");
}
template <>
Result<UpdateMetadata> decode(std::string_view text) {
  return decode_value<UpdateMetadata>(text, "an update's metadata");
}
template <>
Result<UpdateAnswer> decode(std::string_view text) {
  return decode_value<UpdateAnswer>(text, "an update's answer");
}
template <>
Result<Evaluation> decode(std::string_view text) {
  return decode_value<Evaluation>(text, "an evaluation");
}
template <>
Result<Problem> decode(std::string_view text) {
  return decode_fields<Problem>(text, "a problem document");
}

int http_status(Code code) {
  switch (code) {
    case Code::usage:
      return 400;
    case Code::tls_no_certificate:
      return 401;
    case Code::identity:
    case Code::revoked:
      return 403;
    case Code::not_found:
      return 404;
    case Code::conflict:
    case Code::wrong_base:
      return 409;
    case Code::run_finished:
      return 410;
    case Code::too_large:
      return 413;
    case Code::model_format:
    case Code::model_mismatch:
    case Code::not_finite:
    case Code::data:
      return 422;
    case Code::try_again:
      return 503;
    case Code::storage_full:
      return 507;
    default:
      return 500;
  }
}

}  // namespace fedqueue
