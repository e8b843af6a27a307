#include "fedserver/http/connection.h"

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <exception>

#include "fedserver/http/exchange.h"
#include "fedserver/http/routes.h"

namespace fedqueue::http {
namespace {

namespace beast_http = boost::beast::http;

constexpr int tls_first_byte = 0x16;  // a handshake record

using Parser = beast_http::request_parser<beast_http::empty_body>;

class Connection {
 public:
  Connection(Service& service, asio::ip::tcp::socket socket, bool tls)
      : service_(service),
        tls_(tls),
        stream_(std::move(socket)),
        member_(service.connections, stream_),
        buffer_(service.config.limits.header_bytes_max + 1024) {}

  Task<void> run() {
    if (tls_) {
      const bool secure = co_await secure_stream();
      if (!secure) co_return;
    }
    for (;;) {
      const bool more = co_await serve_request();
      if (!more) break;
    }
    co_await stream_.finish(peer_may_send_);
  }

 private:
  Task<bool> secure_stream();
  Task<bool> serve_request();
  Task<bool> read_head(Request& request);
  Task<bool> answer_bad_head(const boost::beast::error_code& fault);
  void count_failure(const char* word, const Error& why);

  Service& service_;
  bool tls_;
  Stream stream_;
  Connections::Member member_;  // leaves the list before the stream closes
  ReadBuffer buffer_;
  std::optional<Peer> peer_;
  bool peer_may_send_ = false;
};

// One line and one count per failure, whatever the peer does.
void Connection::count_failure(const char* word, const Error& why) {
  service_.ports.metrics->add("fedqueue_tls_failures_total", 1, {{"reason", word}});
  service_.log.warning("a connection was refused", {{"peer", stream_.peer_address()},
                                                    {"reason", word},
                                                    {"detail", why.message},
                                                    {"cure", why.cure}});
}

Task<bool> Connection::secure_stream() {
  stream_.allow(service_.config.limits.handshake_time);
  const int first = co_await stream_.first_byte();
  if (first < 0) co_return false;  // a port scan or a liveness probe
  if (first != tls_first_byte) {
    const Error why{Code::plaintext, "this is a TLS port, and the request came without TLS",
                    "Use https:// and a client certificate."};
    count_failure("plaintext", why);
    const std::string body = encode(Problem{400, why});
    const std::string text =
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\n"
        "Connection: close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    (void)co_await stream_.write(std::string_view(text));
    co_await stream_.finish(true);
    co_return false;
  }
  HandshakeFailure failure{"timeout", {Code::network_timeout, "the handshake took too long", ""}};
  const bool secure = co_await stream_.handshake(service_.tls->current(), failure);
  if (!secure) {
    count_failure(failure.word, failure.why);
    co_await stream_.finish(true);
    co_return false;
  }
  X509* certificate = SSL_get1_peer_certificate(stream_.ssl());
  Result<Peer> peer = peer_of(certificate);
  X509_free(certificate);
  if (!peer) {
    count_failure("identity", peer.error());
    const std::string body = encode(Problem{403, peer.error()});
    const std::string text =
        "HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\n"
        "Connection: close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    (void)co_await stream_.write(std::string_view(text));
    co_await stream_.finish(true);
    co_return false;
  }
  peer_ = std::move(*peer);
  co_return true;
}

Task<bool> Connection::answer_bad_head(const boost::beast::error_code& fault) {
  const bool too_long = fault == beast_http::error::header_limit;
  const int status = too_long ? 431 : 400;
  const Error why{Code::usage,
                  too_long ? "the request's header is longer than " +
                                 std::to_string(service_.config.limits.header_bytes_max) + " bytes"
                           : "this is not an HTTP request: " + fault.message(),
                  "Send HTTP/1.1 with a short header."};
  Request request;
  request.keep_alive = false;
  Exchange exchange(service_, stream_, buffer_, std::move(request), peer_ ? &*peer_ : nullptr,
                    member_.number());
  peer_may_send_ = true;
  const Headers none;
  co_await exchange.refuse(why, none, status);
  service_.ports.metrics->add("fedqueue_http_requests_total", 1,
                              {{"route", "none"}, {"status", std::to_string(status)}});
  co_return false;
}

// False when the connection ends here.
Task<bool> Connection::read_head(Request& request) {
  const HttpLimits& limits = service_.config.limits;
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(limits.header_bytes_max));
  // Not boost::none: Boost 1.74 compares lengths with it, and everything is more than nothing.
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());
  parser.eager(false);
  bool begun = !buffer_.filled().empty();
  stream_.allow(begun ? limits.request_time : limits.idle_time);
  for (;;) {
    boost::beast::error_code fault;
    const auto bytes = buffer_.filled();
    if (!bytes.empty()) {
      buffer_.consume(parser.put(asio::const_buffer(bytes.data(), bytes.size()), fault));
      if (parser.is_header_done()) break;
      if (fault && fault != beast_http::error::need_more) {
        co_return co_await answer_bad_head(fault);
      }
    }
    const auto room = buffer_.room();
    if (room.empty()) {
      fault = beast_http::error::header_limit;
      co_return co_await answer_bad_head(fault);
    }
    const std::size_t count = co_await stream_.read_some(room);
    if (count == 0) co_return false;
    buffer_.added(count);
    if (!begun) stream_.allow(limits.request_time);
    begun = true;
  }
  auto& message = parser.get();
  request.verb = message.method();
  request.verb_text = std::string(message.method_string());
  request.target_text = std::string(message.target());
  request.keep_alive = message.keep_alive();
  request.chunked = parser.chunked();
  if (const auto length = parser.content_length()) {
    request.has_length = true;
    request.body_bytes = *length;
  }
  request.expects_go_ahead =
      boost::beast::iequals(message[beast_http::field::expect], "100-continue");
  request.headers = std::move(static_cast<beast_http::fields&>(message.base()));
  co_return true;
}

Task<bool> Connection::serve_request() {
  Request request;
  const bool read = co_await read_head(request);
  if (!read) co_return false;
  Result<Target> target = parse_target(request.target_text);
  const char* route = target ? to_text(target->route) : "none";
  if (target) request.target = *target;
  Exchange exchange(service_, stream_, buffer_, std::move(request), peer_ ? &*peer_ : nullptr,
                    member_.number());
  const std::size_t others = service_.requests.fetch_add(1);
  if (!target) {
    co_await exchange.refuse(target.error());
  } else if (others >= service_.config.limits.requests_max && target->route != Route::health) {
    const Error why{Code::try_again, "the server is answering too many requests",
                    "Try again in a moment."};
    co_await exchange.refuse(why);
  } else {
    co_await handle_request(exchange);
  }
  service_.requests.fetch_sub(1);
  if (exchange.status() != 0) {
    service_.ports.metrics->add("fedqueue_http_requests_total", 1,
                                {{"route", route}, {"status", std::to_string(exchange.status())}});
  }
  peer_may_send_ = exchange.body_left() > 0 || exchange.request().chunked;
  co_return exchange.keep_alive() && !service_.ending;
}

}  // namespace

Task<void> serve_connection(Service& service, asio::ip::tcp::socket socket, bool tls) {
  try {
    Connection connection(service, std::move(socket), tls);
    co_await connection.run();
  } catch (const std::exception& fault) {
    service.log.error(Error{Code::internal, std::string("serve a connection: ") + fault.what(),
                            "Please report this with the log."});
  }
}

}  // namespace fedqueue::http
