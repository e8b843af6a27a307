#include "fedserver/http/stream.h"

#include <netinet/tcp.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace fedqueue::http {
namespace {

constexpr auto farewell_time = std::chrono::seconds(2);
constexpr std::size_t farewell_bytes = 1u << 20;

std::int64_t ticks(std::chrono::steady_clock::time_point when) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
}

std::string address_text(const asio::ip::tcp::socket& socket) {
  boost::system::error_code fault;
  const auto endpoint = socket.remote_endpoint(fault);
  if (fault) return "unknown";
  const asio::ip::address address = endpoint.address();
  const std::string port = ":" + std::to_string(endpoint.port());
  if (address.is_v4()) return address.to_string() + port;
  if (address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string() + port;
  }
  return "[" + address.to_string() + "]" + port;
}

}  // namespace

Stream::Stream(asio::ip::tcp::socket socket)
    : socket_(std::move(socket)),
      fd_(socket_.native_handle()),
      peer_address_(address_text(socket_)),
      ssl_(nullptr, SSL_free),
      deadline_ns_(0) {
  boost::system::error_code ignored;
  socket_.native_non_blocking(true, ignored);
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  const int idle_s = 60;
  (void)::setsockopt(fd_, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  allow(std::chrono::seconds(10));
}

Stream::~Stream() = default;

void Stream::allow(std::chrono::milliseconds time) {
  deadline_ns_.store(ticks(std::chrono::steady_clock::now() + time), std::memory_order_relaxed);
}

bool Stream::overdue(std::chrono::steady_clock::time_point now) const {
  return ticks(now) > deadline_ns_.load(std::memory_order_relaxed);
}

void Stream::cut() { (void)::shutdown(fd_, SHUT_RDWR); }

Task<bool> Stream::wait(Wait what) {
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(bool)>(
      [](auto handler, asio::ip::tcp::socket* socket, Wait type) {
        const auto executor = asio::get_associated_executor(handler);
        socket->async_wait(
            type, asio::bind_executor(
                      executor, [waiting = std::move(handler)](
                                    boost::system::error_code fault) mutable { waiting(!fault); }));
      },
      asio::use_awaitable, &socket_, what);
}

Task<int> Stream::first_byte() {
  for (;;) {
    unsigned char byte = 0;
    const ssize_t count = ::recv(fd_, &byte, 1, MSG_PEEK);
    if (count == 1) co_return byte;
    if (count == 0) co_return -1;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) co_return -1;
    const bool ready = co_await wait(asio::ip::tcp::socket::wait_read);
    if (!ready) co_return -1;
  }
}

Task<bool> Stream::handshake(std::shared_ptr<SSL_CTX> context, HandshakeFailure& failure) {
  context_ = std::move(context);
  ssl_.reset(SSL_new(context_.get()));
  if (!ssl_ || SSL_set_fd(ssl_.get(), fd_) != 1) co_return false;
  for (;;) {
    ERR_clear_error();
    const int done = SSL_accept(ssl_.get());
    if (done == 1) co_return true;
    Wait need{};
    if (after_tls(done, need) == Outcome::ended) {
      failure = explain_handshake(ssl_.get());
      co_return false;
    }
    const bool ready = co_await wait(need);
    if (!ready) co_return false;
  }
}

Stream::Outcome Stream::after_tls(int result, Wait& need) {
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      need = asio::ip::tcp::socket::wait_read;
      return Outcome::wait;
    case SSL_ERROR_WANT_WRITE:
      need = asio::ip::tcp::socket::wait_write;
      return Outcome::wait;
    default:
      return Outcome::ended;
  }
}

Stream::Outcome Stream::try_read(std::span<std::byte> out, std::size_t& count, Wait& need) {
  if (ssl_) {
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_.get(), out.data(), out.size(), &count);
    return result == 1 ? Outcome::done : after_tls(result, need);
  }
  need = asio::ip::tcp::socket::wait_read;
  const ssize_t got = ::recv(fd_, out.data(), out.size(), 0);
  if (got > 0) {
    count = static_cast<std::size_t>(got);
    return Outcome::done;
  }
  if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return Outcome::wait;
  return Outcome::ended;
}

Stream::Outcome Stream::try_write(std::span<const std::byte> bytes, std::size_t& count,
                                  Wait& need) {
  if (ssl_) {
    ERR_clear_error();
    const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &count);
    return result == 1 ? Outcome::done : after_tls(result, need);
  }
  need = asio::ip::tcp::socket::wait_write;
  const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) {
    count = static_cast<std::size_t>(sent);
    return Outcome::done;
  }
  if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) return Outcome::wait;
  return Outcome::ended;
}

Task<std::size_t> Stream::read_at_least(std::span<std::byte> out, std::size_t wanted) {
  std::size_t filled = 0;
  while (filled < wanted) {
    std::size_t count = 0;
    Wait need{};
    const Outcome outcome = try_read(out.subspan(filled), count, need);
    if (outcome == Outcome::ended) break;
    if (outcome == Outcome::done) {
      filled += count;
      continue;
    }
    const bool ready = co_await wait(need);
    if (!ready) break;
  }
  co_return filled;
}

Task<bool> Stream::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::size_t count = 0;
    Wait need{};
    const Outcome outcome = try_write(bytes, count, need);
    if (outcome == Outcome::ended) co_return false;
    if (outcome == Outcome::done) {
      bytes = bytes.subspan(count);
      continue;
    }
    const bool ready = co_await wait(need);
    if (!ready) co_return false;
  }
  co_return true;
}

Task<bool> Stream::write(std::string_view text) {
  co_return co_await write(std::as_bytes(std::span(text.data(), text.size())));
}

Task<void> Stream::finish(bool peer_may_send) {
  if (ssl_ && SSL_is_init_finished(ssl_.get())) {
    ERR_clear_error();
    (void)SSL_shutdown(ssl_.get());
  }
  (void)::shutdown(fd_, SHUT_WR);
  if (!peer_may_send) co_return;
  allow(farewell_time);
  std::array<std::byte, 16384> ignored;
  std::size_t total = 0;
  while (total < farewell_bytes) {
    const ssize_t count = ::recv(fd_, ignored.data(), ignored.size(), 0);
    if (count == 0) co_return;
    if (count > 0) {
      total += static_cast<std::size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) co_return;
    const bool ready = co_await wait(asio::ip::tcp::socket::wait_read);
    if (!ready) co_return;
  }
}

}  // namespace fedqueue::http
