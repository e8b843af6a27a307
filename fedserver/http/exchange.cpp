#include "fedserver/http/exchange.h"

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <cstring>

#include "core/base/text.h"

namespace fedqueue::http {
namespace {

// A body that nobody wants is read and dropped up to this size, so that the connection lives on.
constexpr std::uint64_t unwanted_bytes_max = json_bytes_max;

std::string head_text(int status, const Headers& headers) {
  std::string text = "HTTP/1.1 " + std::to_string(status) + " ";
  const auto reason = boost::beast::http::obsolete_reason(
      boost::beast::http::int_to_status(static_cast<unsigned>(status)));
  text.append(reason.data(), reason.size());
  text += "\r\nServer: fedserver\r\nCache-Control: no-store\r\n";
  for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
  return text;
}

struct ToBody {
  std::string operator()(const Accepted&) const { return "{}"; }
  std::string operator()(const std::string& document) const { return document; }
  std::string operator()(const Error&) const { return {}; }
  template <typename Message>
  std::string operator()(const Message& message) const {
    return encode(message);
  }
};

}  // namespace

std::span<std::byte> ReadBuffer::room() {
  if (begin_ > 0) {
    std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return std::span(bytes_).subspan(end_);
}

std::string_view Request::header(std::string_view name) const {
  const auto value = headers[boost::beast::string_view(name.data(), name.size())];
  return {value.data(), value.size()};
}

Error ending_error() {
  return {Code::try_again, "the server is being stopped", "Try again when it is back."};
}

std::optional<FacilityId> Exchange::facility() const {
  if (peer_ == nullptr || peer_->identity.kind != IdentityKind::facility) return std::nullopt;
  return FacilityId(peer_->name());
}

Task<std::optional<std::string>> Exchange::json_body() {
  if (request_.body_bytes > json_bytes_max) {
    const Error why{Code::too_large,
                    "read the request's body: it has " + std::to_string(request_.body_bytes) +
                        " bytes, but at most " + std::to_string(json_bytes_max) + " are allowed",
                    "Only updates may be larger."};
    co_await refuse(why);
    co_return std::nullopt;
  }
  const bool ready = co_await go_ahead();
  std::string text(request_.body_bytes, '\0');
  const auto bytes = std::as_writable_bytes(std::span(text.data(), text.size()));
  const std::size_t count = co_await read_body(bytes);
  if (!ready || count < text.size()) {
    keep_alive_ = false;
    co_return std::nullopt;
  }
  co_return text;
}

Task<bool> Exchange::go_ahead() {
  if (!request_.expects_go_ahead || went_ahead_) co_return true;
  went_ahead_ = true;
  const std::string_view text = "HTTP/1.1 100 Continue\r\n\r\n";
  co_return co_await stream_.write(text);
}

Task<std::size_t> Exchange::read_body(std::span<std::byte> out) {
  out = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), body_left_)));
  const auto buffered = buffer_.filled();
  std::size_t count = std::min(buffered.size(), out.size());
  std::copy_n(buffered.begin(), count, out.begin());
  buffer_.consume(count);
  if (count < out.size()) {
    const auto rest = out.subspan(count);
    count += co_await stream_.read_at_least(rest, rest.size());
  }
  body_left_ -= count;
  co_return count;
}

// Before the answer: what is left of the body is dropped, or the connection ends after the answer.
Task<void> Exchange::settle_body() {
  if (body_left_ == 0 && !request_.chunked) co_return;
  const bool never_sent = request_.expects_go_ahead && !went_ahead_;
  if (request_.chunked || never_sent || body_left_ > unwanted_bytes_max) {
    keep_alive_ = false;
    co_return;
  }
  std::vector<std::byte> dropped(static_cast<std::size_t>(body_left_));
  const std::size_t count = co_await read_body(dropped);
  if (count < dropped.size()) keep_alive_ = false;
}

Task<bool> Exchange::begin(int status, const Headers& given, std::optional<std::uint64_t> bytes) {
  Headers headers = given;
  co_await settle_body();
  status_ = status;
  if (!request_.keep_alive || service_.ending) keep_alive_ = false;
  if (bytes) {
    headers.emplace_back("Content-Length", std::to_string(*bytes));
  } else if (status != 304) {
    keep_alive_ = false;
  }
  if (!keep_alive_) headers.emplace_back("Connection", "close");
  const std::string head = head_text(status, headers) + "\r\n";
  stream_.allow(service_.config.limits.progress_time);
  const bool sent = co_await stream_.write(std::string_view(head));
  if (!sent) keep_alive_ = false;
  co_return sent;
}

Task<void> Exchange::respond(const Response& response) {
  co_await settle_body();
  status_ = response.status;
  if (!request_.keep_alive || service_.ending) keep_alive_ = false;
  Headers headers = response.headers;
  if (!response.body.empty()) headers.emplace_back("Content-Type", response.content_type);
  if (response.status != 304) {
    headers.emplace_back("Content-Length", std::to_string(response.body.size()));
  }
  if (!keep_alive_) headers.emplace_back("Connection", "close");
  // In one write, so that a small answer is one packet.
  std::string text = head_text(response.status, headers) + "\r\n";
  if (request_.verb != Verb::head && response.status != 304) text += response.body;
  stream_.allow(service_.config.limits.progress_time);
  const bool sent = co_await stream_.write(std::string_view(text));
  if (!sent) keep_alive_ = false;
}

Task<void> Exchange::refuse(const Error& error) {
  const Headers none;
  co_await refuse(error, none, http_status(error.code));
}

Task<void> Exchange::refuse(const Error& error, const Headers& given, int status) {
  Headers headers = given;
  if (status == 503) headers.emplace_back("Retry-After", "2");
  if (status == 507) headers.emplace_back("Retry-After", "30");
  if (status >= 500 && status != 503) {
    service_.log.error(error, {{"request", request_.verb_text + " " + request_.target_text},
                               {"peer", stream_.peer_address()}});
  }
  Response response;
  response.status = status;
  response.content_type = "application/problem+json";
  response.headers = std::move(headers);
  response.body = encode(Problem{status, error});
  co_await respond(response);
}

Task<std::optional<Answer>> Exchange::ask(const Event& event) {
  stream_.allow(service_.config.limits.answer_time);
  auto start = [&post = service_.ports.post, event](std::function<void(Answer)> reply) mutable {
    if (post(std::move(event), reply)) return;
    reply(Error{Code::try_again, "too many requests are waiting for the server's decisions",
                "Try again in a moment."});
  };
  co_return co_await service_.desk.ask<Answer>(std::move(start));
}

Task<void> Exchange::ask_and_respond(const Event& event) {
  const std::optional<Answer> answer = co_await ask(event);
  co_await respond_answer(answer, 200);
}

Task<void> Exchange::respond_answer(const std::optional<Answer>& answer, int status) {
  if (!answer) {
    const Error why = ending_error();
    co_await refuse(why);
    co_return;
  }
  if (const Error* error = std::get_if<Error>(&*answer)) {
    co_await refuse(*error);
    co_return;
  }
  Response response;
  response.status = status;
  response.body = std::visit(ToBody{}, *answer);
  co_await respond(response);
}

}  // namespace fedqueue::http
