// For people and their tools: the event stream, liveness, metrics, and the status page.
#include <ctime>

#include "fedserver/http/content.h"
#include "fedserver/http/routes.h"
#include "fedserver/telemetry/status_page.h"

namespace fedqueue::http {
namespace {

constexpr std::size_t events_per_read = 256;

using Events = std::vector<std::shared_ptr<const FeedEvent>>;

// Events that are no longer kept in memory.
Result<Events> from_journal(const HttpPorts& ports, std::int64_t after) {
  Result<std::vector<JournalRow>> rows = ports.rows(after, events_per_read);
  if (!rows) return rows.error();
  Events events;
  for (const JournalRow& row : *rows) {
    const Result<Fact> fact = decode_fact(row.kind, row.text);
    if (!fact) return fact.error();
    events.push_back(std::make_shared<const FeedEvent>(make_feed_event(row, *fact)));
  }
  return events;
}

Task<Result<Events>> events_after(Service& service, std::int64_t sequence) {
  if (auto kept = service.ports.feed->after(sequence, events_per_read)) co_return *kept;
  auto read = [&ports = service.ports, sequence] { return from_journal(ports, sequence); };
  co_return co_await offload(service.files(), std::move(read));
}

// Where the stream starts: after the last event the watcher has seen; without a word from it, now.
Result<std::int64_t> start_of(const Request& request, const FactFeed& feed) {
  std::string text(request.header("Last-Event-ID"));
  if (text.empty()) text = query_value(request.target.query, "after").value_or("");
  if (text.empty()) return feed.newest();
  const auto number = parse_unsigned(text);
  if (!number || *number > static_cast<std::uint64_t>(INT64_MAX)) {
    return Error{
        Code::usage,
        "read Last-Event-ID: expected the number of an event, got '" + text.substr(0, 40) + "'",
        "Send the 'id' of the last event seen, or 0 for all."};
  }
  return static_cast<std::int64_t>(*number);
}

Task<void> respond_text(Exchange& exchange, const char* type, const std::string& text) {
  Response response;
  response.content_type = type;
  response.body = text;
  co_await exchange.respond(response);
}

}  // namespace

Task<void> get_events(Exchange& exchange) {
  Service& service = exchange.service();
  FactFeed& feed = *service.ports.feed;
  const HttpLimits& limits = service.config.limits;
  Result<std::int64_t> start = start_of(exchange.request(), feed);
  if (!start) {
    co_await exchange.refuse(start.error());
    co_return;
  }
  std::int64_t seen = *start;
  const std::optional<FacilityId> viewer = exchange.facility();
  Headers headers;
  headers.emplace_back("Content-Type", "text/event-stream");
  bool open = co_await exchange.begin(200, headers, std::nullopt);
  // A first line, so that the watcher knows at once that it is connected.
  std::string text = ": connected\n\n";
  while (open && !service.ending) {
    const Result<Events> events = co_await events_after(service, seen);
    if (!events) {
      service.log.error(events.error());
      co_return;
    }
    for (const auto& event : *events) {
      seen = event->sequence;
      if (may_see(*event, viewer)) text += event_text(*event);
    }
    exchange.stream().allow(limits.progress_time);
    open = co_await exchange.stream().write(std::string_view(text));
    text.clear();
    if (!open || !events->empty()) continue;
    exchange.stream().allow(limits.answer_time);
    const auto deadline = std::chrono::steady_clock::now() + limits.event_heartbeat;
    auto wait = [&feed, seen, deadline](std::function<void(bool)> wake) {
      feed.wait(seen, deadline, std::move(wake));
    };
    const std::optional<bool> more = co_await service.desk.ask<bool>(std::move(wait));
    if (!more) co_return;
    if (!*more) {
      text = ": still here\n\n";
      // A revoked watcher sees nothing more.
      if (exchange.peer() != nullptr && !service.ports.admit(*exchange.peer())) co_return;
    }
  }
}

Task<void> get_health(Exchange& exchange) {
  const std::string text = "ok\n";
  co_await respond_text(exchange, "text/plain", text);
}

Task<void> get_metrics(Exchange& exchange) {
  Service& service = exchange.service();
  Metrics& metrics = *service.ports.metrics;
  metrics.set("fedqueue_connections", static_cast<double>(service.connections.size()));
  metrics.set("fedqueue_uploads", static_cast<double>(service.slots.size()));
  metrics.set("fedqueue_watchers", static_cast<double>(service.ports.feed->watchers()));
  metrics.set("fedqueue_cert_expiry_seconds",
              std::difftime(service.tls->expires_at(), std::time(nullptr)));
  const std::string text = metrics.text();
  co_await respond_text(exchange, "text/plain; version=0.0.4; charset=utf-8", text);
}

Task<void> get_page(Exchange& exchange) {
  const Event event = StatusRequested{};
  const std::optional<Answer> answer = co_await exchange.ask(event);
  const std::string* status = answer ? std::get_if<std::string>(&*answer) : nullptr;
  if (status == nullptr) {
    co_await exchange.respond_answer(answer, 200);
    co_return;
  }
  const std::string page = status_page(*status);
  co_await respond_text(exchange, "text/html; charset=utf-8", page);
}

}  // namespace fedqueue::http
