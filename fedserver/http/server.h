// fedserver's face: HTTPS for facilities, operators and observers, and a plain status listener for
// its own machine.
//
// Promises: mutual TLS; an identity acts and reads as itself alone; every wait has a bound, every
// queue a limit; stop() returns after every connection has ended. docs/protocol.md describes what
// can be asked.
//
// Thread safety: start() and stop() from one thread; the ports are called from several.
#pragma once

#include <cstdint>
#include <memory>

#include "fedserver/http/config.h"

namespace fedqueue::http {

struct Service;

class HttpServer {
 public:
  // Listens when it returns. Ignores SIGPIPE for the process: a peer that goes away is no reason to
  // end.
  static Result<std::unique_ptr<HttpServer>> start(HttpConfig config, HttpPorts ports);
  ~HttpServer();

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::uint16_t status_port() const;  // 0: not listening

  // Ends all connections, open uploads at their last durable byte. May be called twice.
  void stop();

 private:
  struct Running;
  explicit HttpServer(std::unique_ptr<Running> running);
  std::unique_ptr<Running> running_;
};

}  // namespace fedqueue::http
