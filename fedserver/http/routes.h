// The routes, one function per resource, grouped by file. Internal to this folder.
//
// REQUIRES of all: the caller has checked the run, the peer's right to the route, and the method.
#pragma once

#include "fedserver/http/exchange.h"

namespace fedqueue::http {

// routes_control.cpp
Task<void> get_status(Exchange& exchange);
Task<void> post_plan(Exchange& exchange);
Task<void> post_job(Exchange& exchange);
Task<void> post_heartbeat(Exchange& exchange);
Task<void> delete_job(Exchange& exchange);
Task<void> post_evaluation(Exchange& exchange);
Task<void> post_stop(Exchange& exchange);

// routes_models.cpp
Task<void> get_latest(Exchange& exchange);
Task<void> get_model(Exchange& exchange);

// routes_updates.cpp
Task<void> head_update(Exchange& exchange);
Task<void> get_update(Exchange& exchange);
Task<void> put_update(Exchange& exchange);

// routes_observe.cpp
Task<void> get_events(Exchange& exchange);
Task<void> get_health(Exchange& exchange);
Task<void> get_metrics(Exchange& exchange);
Task<void> get_page(Exchange& exchange);

// dispatch.cpp: checks who asks, for what and how, and calls the route.
Task<void> handle_request(Exchange& exchange);

}  // namespace fedqueue::http
