// One connection's bytes, encrypted or plain.
//
// OpenSSL reads and writes the socket itself, so that a record is copied once; Asio only tells when
// the socket is ready. Every wait ends: by the peer, or by the deadline, after which the server's
// clock shuts the socket down.
//
// Thread safety: one coroutine at a time, on any executor; cut() and overdue() from any thread
// while the stream lives.
#pragma once

#include <openssl/ssl.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "fedserver/http/asio.h"
#include "fedserver/http/tls.h"

namespace fedqueue::http {

class Stream {
 public:
  explicit Stream(asio::ip::tcp::socket socket);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // "192.0.2.7:40000"; IPv4 addresses in their usual form.
  [[nodiscard]] const std::string& peer_address() const { return peer_address_; }
  [[nodiscard]] bool encrypted() const { return ssl_ != nullptr; }
  [[nodiscard]] SSL* ssl() const { return ssl_.get(); }

  // The first byte the peer sent, which stays unread; -1 when it went away.
  Task<int> first_byte();
  // False: see explain_handshake() in `failure`.
  Task<bool> handshake(std::shared_ptr<SSL_CTX> context, HandshakeFailure& failure);

  // Reads until `wanted` bytes are there, and what comes with them. Fewer only when the peer ended
  // or the deadline passed. REQUIRES: wanted ≤ out.size().
  Task<std::size_t> read_at_least(std::span<std::byte> out, std::size_t wanted);
  Task<std::size_t> read_some(std::span<std::byte> out) { return read_at_least(out, 1); }
  // False when the peer is gone.
  Task<bool> write(std::span<const std::byte> bytes);
  Task<bool> write(std::string_view text);
  // Says goodbye. When the peer may still be sending, its bytes are read for a moment and thrown
  // away: closing with unread bytes would make its system drop our last answer.
  Task<void> finish(bool peer_may_send);

  // From now on the peer has this long before it is cut off.
  void allow(std::chrono::milliseconds time);
  [[nodiscard]] bool overdue(std::chrono::steady_clock::time_point now) const;
  void cut();

 private:
  using Wait = asio::ip::tcp::socket::wait_type;
  enum class Outcome { done, wait, ended };

  // One attempt without waiting; `need` says what to wait for.
  Outcome try_read(std::span<std::byte> out, std::size_t& count, Wait& need);
  Outcome try_write(std::span<const std::byte> bytes, std::size_t& count, Wait& need);
  Outcome after_tls(int result, Wait& need);
  Task<bool> wait(Wait what);

  asio::ip::tcp::socket socket_;
  int fd_;
  std::string peer_address_;
  std::shared_ptr<SSL_CTX> context_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  std::atomic<std::int64_t> deadline_ns_;
};

}  // namespace fedqueue::http
