// From a request to its route: which run, who may, which methods.
#include <initializer_list>

#include "fedserver/http/routes.h"

namespace fedqueue::http {
namespace {

struct Entry {
  Route route;
  Verb verb;
  const char* verb_text;
  Task<void> (*handler)(Exchange&);
};

constexpr Entry table[] = {
    {Route::status, Verb::get, "GET", get_status},
    {Route::plans, Verb::post, "POST", post_plan},
    {Route::jobs, Verb::post, "POST", post_job},
    {Route::heartbeat, Verb::post, "POST", post_heartbeat},
    {Route::job, Verb::delete_, "DELETE", delete_job},
    {Route::latest, Verb::get, "GET", get_latest},
    {Route::model, Verb::get, "GET", get_model},
    {Route::model, Verb::head, "HEAD", get_model},
    {Route::update, Verb::head, "HEAD", head_update},
    {Route::update, Verb::get, "GET", get_update},
    {Route::update, Verb::put, "PUT", put_update},
    {Route::evaluations, Verb::post, "POST", post_evaluation},
    {Route::events, Verb::get, "GET", get_events},
    {Route::stop, Verb::post, "POST", post_stop},
    {Route::health, Verb::get, "GET", get_health},
    {Route::metrics, Verb::get, "GET", get_metrics},
    {Route::page, Verb::get, "GET", get_page},
};

bool is_for_watching(Route route) {
  return route == Route::health || route == Route::metrics || route == Route::page;
}

bool may(IdentityKind kind, Route route) {
  switch (route) {
    case Route::plans:
    case Route::jobs:
    case Route::heartbeat:
    case Route::job:
    case Route::update:
      return kind == IdentityKind::facility;
    case Route::stop:
      return kind == IdentityKind::administrator;
    case Route::health:
    case Route::metrics:
    case Route::page:
      return kind != IdentityKind::facility;
    default:
      return true;
  }
}

const char* needed(Route route) {
  if (route == Route::stop) return "an operator's certificate";
  if (is_for_watching(route)) return "an observer's or operator's certificate";
  return "a facility's certificate";
}

// Whether the one who asks may ask this at all.
Status check_peer(Exchange& exchange, Route route) {
  const Peer* peer = exchange.peer();
  if (peer == nullptr) {
    if (is_for_watching(route)) return {};
    return Error{Code::identity,
                 "this listener shows the status of the run to its own machine, and nothing else",
                 "Use the server's TLS address with a certificate."};
  }
  if (calendar_now() > peer->not_after) {
    return Error{Code::identity, "the certificate of " + peer->text() + " has expired",
                 "Renew it with 'fedserver cert', and connect again."};
  }
  if (Status admitted = exchange.service().ports.admit(*peer); !admitted) return admitted;
  if (may(peer->identity.kind, route)) return {};
  return Error{Code::identity, peer->text() + " may not use '" + to_text(route) + "'",
               std::string("It takes ") + needed(route) + "."};
}

const Entry* entry_for(Route route, Verb verb, std::string& allowed) {
  const Entry* found = nullptr;
  for (const Entry& entry : table) {
    if (entry.route != route) continue;
    if (entry.verb == verb) found = &entry;
    allowed += (allowed.empty() ? "" : ", ") + std::string(entry.verb_text);
  }
  return found;
}

}  // namespace

Task<void> handle_request(Exchange& exchange) {
  Service& service = exchange.service();
  const Request& request = exchange.request();
  const Target& target = request.target;
  if (Status good = check_peer(exchange, target.route); !good) {
    const Peer* peer = exchange.peer();
    service.log.warning("a request was refused",
                        {{"facility", peer != nullptr ? peer->name() : ""},
                         {"peer", exchange.stream().peer_address()},
                         {"request", request.verb_text + " " + request.target_text.substr(0, 200)},
                         {"reason", good.error().message}});
    co_await exchange.refuse(good.error());
    co_return;
  }
  if (!target.run.empty() && target.run != service.config.run) {
    const Error why{Code::not_found,
                    "this server has no run '" + target.run.substr(0, 100) + "'; its run is '" +
                        service.config.run + "'",
                    "Check the run's name in the kit's configuration."};
    co_await exchange.refuse(why);
    co_return;
  }
  std::string allowed;
  const Entry* entry = entry_for(target.route, request.verb, allowed);
  if (entry == nullptr) {
    Headers headers;
    headers.emplace_back("Allow", allowed);
    const Error why{Code::usage,
                    "'" + request.verb_text.substr(0, 20) + "' is no way to use '" +
                        to_text(target.route) + "'",
                    "Allowed here: " + allowed + "."};
    co_await exchange.refuse(why, headers, 405);
    co_return;
  }
  co_await entry->handler(exchange);
}

}  // namespace fedqueue::http
