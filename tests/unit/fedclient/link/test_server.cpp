#include "tests/unit/fedclient/link/test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "core/base/assert.h"
#include "core/base/text.h"

namespace fedqueue::test {

Listener::Listener() {
  std::signal(SIGPIPE, SIG_IGN);
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  FEDQUEUE_ASSERT(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0);
  FEDQUEUE_ASSERT(::listen(socket_, 64) == 0);
  ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
}

void Listener::start() {
  accepting_ = std::thread([this] {
    while (!stopping_) {
      const int accepted = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (accepted < 0) return;
      ++connections_;
      std::lock_guard lock(mutex_);
      sockets_.insert(accepted);
      threads_.emplace_back([this, accepted] {
        serve(accepted);
        // Closed, and not only shut down: whatever the peer still sends must be answered by a
        // reset.
        std::lock_guard closing(mutex_);
        sockets_.erase(accepted);
        ::close(accepted);
      });
    }
  });
}

void Listener::stop() {
  stopping_ = true;
  ::shutdown(socket_, SHUT_RDWR);
  accepting_.join();
  {
    std::lock_guard lock(mutex_);
    for (const int open : sockets_) ::shutdown(open, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  ::close(socket_);
}

struct HttpServer::Stream {
  int socket;
  SSL* ssl = nullptr;
  std::string buffered;

  ~Stream() {
    if (ssl != nullptr) SSL_free(ssl);
  }
  bool more() {
    char data[65536];
    const long count =
        ssl != nullptr ? SSL_read(ssl, data, sizeof data) : ::recv(socket, data, sizeof data, 0);
    if (count > 0) buffered.append(data, static_cast<std::size_t>(count));
    return count > 0;
  }
  bool send_all(const std::string& text) {
    std::size_t at = 0;
    while (at < text.size()) {
      const long count = ssl != nullptr
                             ? SSL_write(ssl, text.data() + at, static_cast<int>(text.size() - at))
                             : ::send(socket, text.data() + at, text.size() - at, MSG_NOSIGNAL);
      if (count <= 0) return false;
      at += static_cast<std::size_t>(count);
    }
    return true;
  }
};

HttpServer::HttpServer(const Identity* identity, const Identity* client_ca, Handler handler,
                       Cutter cutter)
    : handler_(std::move(handler)), cutter_(std::move(cutter)) {
  if (identity != nullptr) {
    context_ = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(context_, identity->certificate.get());
    SSL_CTX_use_PrivateKey(context_, identity->key.get());
    if (client_ca != nullptr) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context_), client_ca->certificate.get());
      SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
  }
  start();
}

HttpServer::~HttpServer() {
  stop();
  SSL_CTX_free(context_);
}

void HttpServer::serve(int socket) {
  Stream stream{socket, nullptr, ""};
  if (context_ != nullptr) {
    stream.ssl = SSL_new(context_);
    SSL_set_fd(stream.ssl, socket);
    if (SSL_accept(stream.ssl) != 1) {
      // The alert must not be lost to a reset: take what the client still sends.
      ::shutdown(socket, SHUT_WR);
      char rest[4096];
      while (::recv(socket, rest, sizeof rest, 0) > 0) {
      }
      return;
    }
  }
  while (one_exchange(stream)) {
  }
}

bool HttpServer::one_exchange(Stream& stream) {
  std::size_t end = 0;
  while ((end = stream.buffered.find("\r\n\r\n")) == std::string::npos) {
    if (stream.buffered.size() > 1 && stream.ssl == nullptr && stream.buffered[0] == 0x16) {
      stream.send_all("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
      return false;
    }
    if (!stream.more()) return false;
  }
  HttpRequest request;
  std::istringstream head(stream.buffered.substr(0, end));
  std::string line;
  head >> request.method >> request.target;
  std::getline(head, line);
  while (std::getline(head, line)) {
    const std::size_t colon = line.find(':');
    std::string name = line.substr(0, colon);
    std::transform(name.begin(), name.end(), name.begin(), ::tolower);
    request.headers[name] = std::string(trim(line.substr(colon + 1)));
  }
  stream.buffered.erase(0, end + 4);
  const auto length =
      static_cast<std::size_t>(parse_integer(request.headers["content-length"]).value_or(0));
  const std::size_t wanted = std::min(length, cutter_ ? cutter_(request) : std::string::npos);
  while (stream.buffered.size() < wanted) {
    if (!stream.more()) return false;
  }
  request.body = stream.buffered.substr(0, wanted);
  stream.buffered.erase(0, wanted);
  const HttpReply reply = handler_(request);
  if (wanted < length) return false;
  std::string text = "HTTP/1.1 " + std::to_string(reply.status) + " Status\r\n";
  for (const std::string& header : reply.headers) text += header + "\r\n";
  text += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n";
  if (request.method != "HEAD") text += reply.body.substr(0, reply.body_limit);
  return stream.send_all(text) && reply.body_limit == std::string::npos;
}

ConnectProxy::ConnectProxy(int refuse_with) : refuse_with_(refuse_with) { start(); }
ConnectProxy::~ConnectProxy() { stop(); }

std::string ConnectProxy::last_authorization() {
  std::lock_guard lock(mutex_);
  return authorization_;
}

void ConnectProxy::serve(int socket) {
  std::string head;
  char data[65536];
  while (head.find("\r\n\r\n") == std::string::npos) {
    const long count = ::recv(socket, data, sizeof data, 0);
    if (count <= 0) return;
    head.append(data, static_cast<std::size_t>(count));
  }
  if (const std::size_t at = head.find("Proxy-Authorization: "); at != std::string::npos) {
    std::lock_guard lock(mutex_);
    authorization_ = head.substr(at + 21, head.find('\r', at) - at - 21);
  }
  const auto answer = [&](const std::string& text) {
    return ::send(socket, text.data(), text.size(), MSG_NOSIGNAL) > 0;
  };
  if (refuse_with_ != 0) {
    answer("HTTP/1.1 " + std::to_string(refuse_with_) + " No\r\nContent-Length: 0\r\n\r\n");
    return;
  }
  const std::size_t colon = head.find(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(head.substr(colon + 1))));
  const int onward = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(onward, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      answer("HTTP/1.1 200 Connected\r\n\r\n")) {
    pollfd both[2] = {{socket, POLLIN, 0}, {onward, POLLIN, 0}};
    bool open = true;
    while (open && ::poll(both, 2, -1) > 0) {
      for (int side = 0; side < 2 && open; ++side) {
        if (both[side].revents == 0) continue;
        const long count = ::recv(both[side].fd, data, sizeof data, 0);
        open = count > 0 && ::send(both[1 - side].fd, data, static_cast<std::size_t>(count),
                                   MSG_NOSIGNAL) == count;
      }
    }
  }
  ::close(onward);
}

}  // namespace fedqueue::test
