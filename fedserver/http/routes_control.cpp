// The small requests of agents, trainers and people: decode, ask the engine, answer.
#include <openssl/rand.h>

#include <nlohmann/json.hpp>

#include "core/base/assert.h"
#include "fedserver/http/routes.h"

namespace fedqueue::http {
namespace {

// 128 random bits as hexadecimal.
std::string fresh_token() {
  unsigned char bytes[16];
  FEDQUEUE_ASSERT(RAND_bytes(bytes, sizeof bytes) == 1);
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text.push_back(digits[byte >> 4]);
    text.push_back(digits[byte & 15]);
  }
  return text;
}

// Reads the body as a message and hands it to make_event; nothing is left to do afterwards.
template <typename Message, typename MakeEvent>
Task<void> decode_and_ask(Exchange& exchange, MakeEvent make_event) {
  const std::optional<std::string> text = co_await exchange.json_body();
  if (!text) co_return;
  Result<Message> message = decode<Message>(*text);
  if (!message) {
    co_await exchange.refuse(message.error());
    co_return;
  }
  const Event event = make_event(std::move(*message));
  co_await exchange.ask_and_respond(event);
}

// The attempt in the target; otherwise the refusal was sent.
Task<std::optional<AttemptId>> attempt_of(Exchange& exchange) {
  const std::string& text = exchange.request().target.id;
  const Result<AttemptParts> parts = parse_attempt_id(text);
  if (parts) co_return AttemptId(text);
  co_await exchange.refuse(parts.error());
  co_return std::nullopt;
}

}  // namespace

Task<void> get_status(Exchange& exchange) {
  const Event event = StatusRequested{exchange.facility()};
  co_await exchange.ask_and_respond(event);
}

Task<void> post_plan(Exchange& exchange) {
  const FacilityId facility = *exchange.facility();
  auto make_event = [facility](PlanRequest request) -> Event {
    return PlanRequested{facility, std::move(request)};
  };
  co_await decode_and_ask<PlanRequest>(exchange, make_event);
}

Task<void> post_job(Exchange& exchange) {
  const FacilityId facility = *exchange.facility();
  auto make_event = [facility](JobRegistration registration) -> Event {
    return AttemptArrived{facility, std::move(registration), fresh_token()};
  };
  co_await decode_and_ask<JobRegistration>(exchange, make_event);
}

Task<void> post_heartbeat(Exchange& exchange) {
  const std::optional<AttemptId> attempt = co_await attempt_of(exchange);
  if (!attempt) co_return;
  const FacilityId facility = *exchange.facility();
  auto make_event = [facility, attempt = *attempt](Heartbeat heartbeat) -> Event {
    return HeartbeatArrived{facility, attempt, std::move(heartbeat)};
  };
  co_await decode_and_ask<Heartbeat>(exchange, make_event);
}

Task<void> delete_job(Exchange& exchange) {
  const std::optional<AttemptId> attempt = co_await attempt_of(exchange);
  if (!attempt) co_return;
  const FacilityId facility = *exchange.facility();
  auto make_event = [facility, attempt = *attempt](JobEnd end) -> Event {
    return AttemptLeft{facility, attempt, std::move(end)};
  };
  co_await decode_and_ask<JobEnd>(exchange, make_event);
}

Task<void> post_evaluation(Exchange& exchange) {
  auto make_event = [](Evaluation evaluation) -> Event { return EvaluationArrived{evaluation}; };
  co_await decode_and_ask<Evaluation>(exchange, make_event);
}

Task<void> post_stop(Exchange& exchange) {
  const std::optional<std::string> text = co_await exchange.json_body();
  if (!text) co_return;
  std::string reason = "operator '" + exchange.peer()->name() + "' stopped the run";
  if (!text->empty()) {
    const auto document = nlohmann::json::parse(*text, nullptr, false);
    const bool usable =
        document.is_object() && (!document.contains("reason") || document.at("reason").is_string());
    if (!usable) {
      const Error why{Code::usage,
                      "read a stop request: expected an object whose 'reason', if there is one, is "
                      "a text",
                      "Send {\"reason\": \"…\"} or nothing."};
      co_await exchange.refuse(why);
      co_return;
    }
    if (document.contains("reason")) {
      const std::string why = document.at("reason").get<std::string>();
      if (!why.empty()) reason += ": " + why.substr(0, text_bytes_max);
    }
  }
  const Event event = StopRequested{std::move(reason)};
  co_await exchange.ask_and_respond(event);
}

}  // namespace fedqueue::http
