// Link's small calls: JSON in, JSON out.
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "fedclient/link/event_stream.h"
#include "fedclient/link/faults.h"
#include "fedclient/link/link_state.h"

namespace fedqueue {
namespace {

// A request that changes something. It may be repeated: see "Idempotency" in docs/protocol.md.
Result<std::string> send(Transport& transport, const char* method, const std::string& path,
                         const std::string& body) {
  Exchange exchange;
  exchange.method = method;
  exchange.path = path;
  exchange.body = body;
  Result<Answer> answer = transport.perform(exchange);
  if (!answer) return answer.error();
  if (!answer->ok()) return answer_error(answer->status, answer->body);
  return std::move(answer->body);
}

template <typename T>
Result<T> decoded(const Result<std::string>& body) {
  if (!body) return body.error();
  Result<T> value = decode<T>(*body);
  if (!value) {
    return Error{Code::network,
                 "the server's answer cannot be understood: " + value.error().message,
                 "Check that client and server are of versions that fit together."};
  }
  return value;
}

}  // namespace

Link::Link(std::unique_ptr<State> state) : state_(std::move(state)) {}
Link::~Link() = default;

Result<std::unique_ptr<Link>> Link::create(LinkConfig config) {
  Result<std::unique_ptr<Transport>> transport = Transport::create(config);
  if (!transport) return transport.error();
  auto state = std::make_unique<State>(std::move(*transport));
  return std::unique_ptr<Link>(new Link(std::move(state)));
}

const std::string& Link::proxy_used() const { return state_->transport->proxy_used(); }

Result<PlanAnswer> Link::plan(const PlanRequest& request) {
  return decoded<PlanAnswer>(send(*state_->transport, "POST", "plans", encode(request)));
}

Result<JobAnswer> Link::enrol(const JobRegistration& registration) {
  return decoded<JobAnswer>(send(*state_->transport, "POST", "jobs", encode(registration)));
}

Result<HeartbeatAnswer> Link::heartbeat(const AttemptId& attempt, const Heartbeat& heartbeat) {
  return decoded<HeartbeatAnswer>(
      send(*state_->transport, "POST", "jobs/" + attempt.str() + "/heartbeat", encode(heartbeat)));
}

Status Link::end_job(const AttemptId& attempt, const JobEnd& end) {
  Result<std::string> body =
      send(*state_->transport, "DELETE", "jobs/" + attempt.str(), encode(end));
  if (!body) return body.error();
  return {};
}

Status Link::evaluated(const Evaluation& evaluation) {
  Result<std::string> body = send(*state_->transport, "POST", "evaluations", encode(evaluation));
  if (!body) return body.error();
  return {};
}

Result<std::string> Link::status_json() {
  Exchange exchange;
  Result<Answer> answer = state_->transport->perform(exchange);
  if (!answer) return answer.error();
  if (!answer->ok()) return answer_error(answer->status, answer->body);
  return std::move(answer->body);
}

Result<Version> Link::latest_version() {
  Exchange exchange;
  exchange.path = "models/latest";
  Result<Answer> answer = state_->transport->perform(exchange);
  if (!answer) return answer.error();
  if (answer->status != 307) {
    if (answer->status >= 300) return answer_error(answer->status, answer->body);
    return Error{
        Code::network,
        "expected a redirection from models/latest, got status " + std::to_string(answer->status),
        ""};
  }
  // Only the version is taken from the answer: a redirection cannot lead to another server.
  const std::string location = answer->header("location");
  const std::optional<std::int64_t> version =
      parse_integer(location.substr(location.rfind('/') + 1));
  if (!version || *version < 0) {
    return Error{Code::network, "models/latest leads to '" + location + "', which is no version",
                 ""};
  }
  return *version;
}

Status Link::events(std::int64_t last_id, const std::function<bool(const ServerEvent&)>& callback) {
  Transport& transport = *state_->transport;
  const RetryPolicy& retry = transport.config().retry;
  int failures = 0;
  for (;;) {
    EventStream stream;
    bool wanted = true;
    Exchange exchange;
    exchange.path = "events";
    exchange.endless = true;
    exchange.headers = {"Accept: text/event-stream"};
    if (last_id > 0) exchange.headers.push_back("Last-Event-ID: " + std::to_string(last_id));
    exchange.sink = [&](const Answer&, std::span<const std::byte> bytes) {
      failures = 0;
      for (const ServerEvent& event : stream.feed(bytes)) {
        if (event.id > 0) last_id = event.id;
        if (wanted) wanted = callback(event);
      }
      return wanted;
    };
    Result<Answer> answer = transport.perform(exchange);
    if (!wanted) return {};
    Error error{Code::network, "the server ended the stream of events", ""};
    if (!answer) {
      error = answer.error();
    } else if (!answer->ok()) {
      error = answer_error(answer->status, answer->body);
    }
    if (!may_pass(error.code) || transport.config().interrupted()) return error;
    ++failures;
    if (!transport.pause(backoff(retry, failures, state_->random.uniform()))) return error;
  }
}

Status Link::stop_run(const std::string& reason) {
  const std::string body = nlohmann::json({{"reason", reason}}).dump();
  const Result<std::string> answer = send(*state_->transport, "POST", "stop", body);
  if (!answer) return answer.error();
  return {};
}

}  // namespace fedqueue
