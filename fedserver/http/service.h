// What all connections of a server share. Internal to this folder.
//
// Thread-safe, as each of its parts.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "fedserver/http/asio.h"
#include "fedserver/http/config.h"
#include "fedserver/http/connections.h"
#include "fedserver/http/desk.h"
#include "fedserver/http/upload_slots.h"

namespace fedqueue::http {

struct Service {
  Service(HttpConfig the_config, HttpPorts the_ports, std::unique_ptr<TlsCertificates> the_tls)
      : config(std::move(the_config)),
        ports(std::move(the_ports)),
        log(ports.log.for_component("http")),
        tls(std::move(the_tls)) {}

  const HttpConfig config;
  const HttpPorts ports;
  const Log log;
  const std::unique_ptr<TlsCertificates> tls;
  Desk desk;
  UploadSlots slots{desk};
  Connections connections;
  std::atomic<bool> ending{false};
  std::atomic<std::size_t> requests{0};  // being answered

  asio::io_context requests_context;   // handshakes and requests
  asio::io_context transfers_context;  // bodies of updates and models
  asio::io_context files_context;      // what waits for the disk: opening, syncing, the journal
  [[nodiscard]] asio::any_io_executor transfers() { return transfers_context.get_executor(); }
  [[nodiscard]] asio::any_io_executor files() { return files_context.get_executor(); }
};

}  // namespace fedqueue::http
