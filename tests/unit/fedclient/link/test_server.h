// Small servers on a loopback port for tests: HTTP over TLS (or without), and a CONNECT proxy. One
// thread per connection, all gone when the object is.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/fedclient/link/test_certificates.h"

namespace fedqueue::test {

struct HttpRequest {
  std::string method;
  std::string target;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // what arrived of it
};

struct HttpReply {
  int status = 200;
  std::vector<std::string> headers;
  std::string body;
  std::size_t body_limit = std::string::npos;  // the connection is cut after so many bytes of it
};

// Accepts on 127.0.0.1 and gives every connection to `serve` in a thread of its own.
class Listener {
 public:
  Listener();
  virtual ~Listener() = default;
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] int connections() const { return connections_; }

 protected:
  void start();
  void stop();  // must be called by the destructor of the class that has serve()
  virtual void serve(int socket) = 0;
  std::atomic<bool> stopping_ = false;

 private:
  int socket_ = -1;
  int port_ = 0;
  std::atomic<int> connections_ = 0;
  std::thread accepting_;
  std::mutex mutex_;
  std::set<int> sockets_;
  std::vector<std::thread> threads_;
};

class HttpServer : public Listener {
 public:
  using Handler = std::function<HttpReply(const HttpRequest&)>;
  // Bytes of a request's body to take before the connection is cut; npos for all.
  using Cutter = std::function<std::size_t(const HttpRequest& head)>;

  // Without an identity: plain HTTP. `client_ca`: whom clients must be signed by.
  HttpServer(const Identity* identity, const Identity* client_ca, Handler handler,
             Cutter cutter = nullptr);
  ~HttpServer() override;

 private:
  struct Stream;
  void serve(int socket) override;
  bool one_exchange(Stream& stream);
  SSL_CTX* context_ = nullptr;
  Handler handler_;
  Cutter cutter_;
};

class ConnectProxy : public Listener {
 public:
  explicit ConnectProxy(int refuse_with = 0);
  ~ConnectProxy() override;
  [[nodiscard]] std::string last_authorization();

 private:
  void serve(int socket) override;
  int refuse_with_;
  std::mutex mutex_;
  std::string authorization_;
};

}  // namespace fedqueue::test
