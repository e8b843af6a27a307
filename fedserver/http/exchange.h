// One request and its answer, as the routes see them. Internal to this folder.
//
// Promises: exactly one answer; every error is a problem document with a cure; a body that nobody
// read never becomes the next request. Used by one coroutine at a time.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/verb.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fedserver/http/service.h"
#include "fedserver/http/target.h"

namespace fedqueue::http {

using Verb = boost::beast::http::verb;
using Headers = std::vector<std::pair<std::string, std::string>>;

// What was read from the connection and not used yet.
class ReadBuffer {
 public:
  explicit ReadBuffer(std::size_t bytes) : bytes_(bytes) {}
  [[nodiscard]] std::span<const std::byte> filled() const {
    return std::span(bytes_).subspan(begin_, end_ - begin_);
  }
  // Where more can be read to; empty when the buffer is full.
  std::span<std::byte> room();
  void added(std::size_t count) { end_ += count; }
  void consume(std::size_t count) { begin_ += count; }

 private:
  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

struct Request {
  Verb verb = Verb::unknown;
  std::string verb_text;
  std::string target_text;
  Target target;
  boost::beast::http::fields headers;
  std::uint64_t body_bytes = 0;
  bool has_length = false;
  bool chunked = false;
  bool expects_go_ahead = false;  // Expect: 100-continue
  bool keep_alive = true;

  [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;
};

class Exchange {
 public:
  Exchange(Service& service, Stream& stream, ReadBuffer& buffer, Request request, const Peer* peer,
           std::uint64_t connection)
      : service_(service),
        stream_(stream),
        buffer_(buffer),
        request_(std::move(request)),
        peer_(peer),
        connection_(connection),
        body_left_(request_.body_bytes) {}

  [[nodiscard]] Service& service() { return service_; }
  [[nodiscard]] Stream& stream() { return stream_; }
  [[nodiscard]] const Request& request() const { return request_; }
  // Who asks; nobody on the status listener.
  [[nodiscard]] const Peer* peer() const { return peer_; }
  [[nodiscard]] std::optional<FacilityId> facility() const;
  [[nodiscard]] std::uint64_t connection() const { return connection_; }

  // --- the request's body
  // The whole of it, if it is small; otherwise the refusal was sent.
  Task<std::optional<std::string>> json_body();
  // Tells a client that waits for it to send the body. False: it is gone.
  Task<bool> go_ahead();
  // The next bytes, as many as fit or are left; fewer: the client is gone.
  Task<std::size_t> read_body(std::span<std::byte> out);
  [[nodiscard]] std::uint64_t body_left() const { return body_left_; }

  // --- the answer
  // All take names, not temporaries: see asio.h.
  Task<void> respond(const Response& response);
  Task<void> refuse(const Error& error);
  Task<void> refuse(const Error& error, const Headers& headers, int status);
  // The head of an answer whose body the route writes itself; without a length the end of the
  // connection ends the body.
  Task<bool> begin(int status, const Headers& headers, std::optional<std::uint64_t> bytes);
  [[nodiscard]] int status() const { return status_; }
  // The connection cannot be used for another request.
  void end_connection() { keep_alive_ = false; }
  [[nodiscard]] bool keep_alive() const { return keep_alive_; }

  // --- the engine
  // Nothing: the server is ending, and the event may or may not have been taken.
  Task<std::optional<Answer>> ask(const Event& event);
  // The event's answer is the request's.
  Task<void> ask_and_respond(const Event& event);
  Task<void> respond_answer(const std::optional<Answer>& answer, int status);

 private:
  Task<void> settle_body();

  Service& service_;
  Stream& stream_;
  ReadBuffer& buffer_;
  Request request_;
  const Peer* peer_;
  std::uint64_t connection_;
  std::uint64_t body_left_;
  bool went_ahead_ = false;
  bool keep_alive_ = true;
  int status_ = 0;
};

// The server is on its way down.
[[nodiscard]] Error ending_error();

}  // namespace fedqueue::http
