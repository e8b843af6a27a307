// One connection from its first byte to its end. Internal to this folder.
#pragma once

#include "fedserver/http/service.h"

namespace fedqueue::http {

// REQUIRES: runs on the service's requests_context; the service outlives it.
Task<void> serve_connection(Service& service, asio::ip::tcp::socket socket, bool tls);

}  // namespace fedqueue::http
