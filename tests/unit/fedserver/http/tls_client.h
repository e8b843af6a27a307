// A blocking client that says exactly what a test wants said, and nothing else.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace fedqueue::http::test {

struct Reply {
  int status = 0;  // 0: the server ended the connection without an answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class Client {
 public:
  struct Files {
    std::filesystem::path ca;
    std::filesystem::path certificate;  // empty: none is shown
    std::filesystem::path key;
  };

  // Without files: plain TCP.
  explicit Client(std::uint16_t port, std::optional<Files> files = std::nullopt,
                  const char* address = "127.0.0.1") {
    const bool six = std::string(address).find(':') != std::string::npos;
    fd_ = ::socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    ::inet_pton(six ? AF_INET6 : AF_INET, address,
                six ? static_cast<void*>(&v6.sin6_addr) : static_cast<void*>(&v4.sin_addr));
    const auto* where =
        six ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
    connected_ = ::connect(fd_, where, six ? sizeof v6 : sizeof v4) == 0;
    if (connected_ && files) secure(*files);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }

  // As a process that is killed does it.
  void close() {
    if (ssl_ != nullptr) SSL_free(std::exchange(ssl_, nullptr));
    if (context_ != nullptr) SSL_CTX_free(std::exchange(context_, nullptr));
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

  bool send(const std::string& text) {
    std::size_t sent = 0;
    while (sent < text.size()) {
      const std::size_t left = text.size() - sent;
      const ssize_t count = ssl_ != nullptr
                                ? SSL_write(ssl_, text.data() + sent, static_cast<int>(left))
                                : ::send(fd_, text.data() + sent, left, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<std::size_t>(count);
    }
    return true;
  }

  // Nothing more will be sent; what the server says can still be read.
  void end_sending() {
    if (ssl_ != nullptr) SSL_shutdown(ssl_);
    ::shutdown(fd_, SHUT_WR);
  }

  // Up to and including the mark; what there was when the connection ended otherwise.
  std::string read_until(const std::string& mark) {
    for (;;) {
      if (const auto at = pending_.find(mark); at != std::string::npos) {
        return take(at + mark.size());
      }
      if (!read_more()) return take(pending_.size());
    }
  }

  Reply read_reply(bool head = false) {
    Reply reply;
    const std::string text = read_until("\r\n\r\n");
    if (text.rfind("HTTP/1.1 ", 0) != 0) return reply;
    reply.status = std::stoi(text.substr(9, 3));
    std::size_t at = text.find("\r\n") + 2;
    while (at < text.size() - 2) {
      const std::size_t end = text.find("\r\n", at);
      const std::size_t colon = text.find(':', at);
      std::string name = text.substr(at, colon - at);
      for (char& letter : name) letter = static_cast<char>(std::tolower(letter));
      reply.headers[name] = text.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    if (head || reply.status == 304 || reply.status == 100) return reply;
    const std::string length = reply.header("content-length");
    if (length.empty()) return reply;
    while (pending_.size() < std::stoull(length) && read_more()) {
    }
    reply.body = take(std::min<std::size_t>(pending_.size(), std::stoull(length)));
    return reply;
  }

  Reply request(const std::string& head, const std::string& body = "") {
    std::string text = head;
    if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    send(text + "\r\n" + body);
    return read_reply(head.rfind("HEAD ", 0) == 0);
  }

  // True when the server has ended the connection.
  bool ended() { return !read_more(); }

 private:
  void secure(const Files& files) {
    context_ = SSL_CTX_new(TLS_client_method());
    ASSERT_EQ(SSL_CTX_load_verify_file(context_, files.ca.c_str()), 1);
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
    if (!files.certificate.empty()) {
      ASSERT_EQ(SSL_CTX_use_certificate_chain_file(context_, files.certificate.c_str()), 1);
      ASSERT_EQ(SSL_CTX_use_PrivateKey_file(context_, files.key.c_str(), SSL_FILETYPE_PEM), 1);
    }
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, fd_);
    connected_ = SSL_connect(ssl_) == 1;
  }

  std::string take(std::size_t count) {
    std::string text = pending_.substr(0, count);
    pending_.erase(0, count);
    return text;
  }

  bool read_more() {
    char bytes[16384];
    const ssize_t count =
        ssl_ != nullptr ? SSL_read(ssl_, bytes, sizeof bytes) : ::recv(fd_, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    pending_.append(bytes, static_cast<std::size_t>(count));
    return true;
  }

  int fd_ = -1;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
  std::string pending_;
};

}  // namespace fedqueue::http::test
