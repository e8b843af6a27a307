// Models: immutable files, whole or in parts.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/file.h"
#include "fedserver/http/content.h"
#include "fedserver/http/routes.h"

namespace fedqueue::http {
namespace {

constexpr std::size_t read_bytes = 256u << 10;

Error unknown_version(const ModelIndex& models, const std::string& text) {
  const auto version = parse_unsigned(text);
  if (version && *version < static_cast<std::uint64_t>(models.oldest())) {
    return {
        Code::not_found,
        "version " + text + " is no longer kept; the oldest is " + std::to_string(models.oldest()),
        "Ask for 'latest', or raise the server's models_kept."};
  }
  const auto latest = models.latest();
  return {Code::not_found,
          "there is no version '" + text.substr(0, 40) + "'; the newest is " +
              (latest ? std::to_string(latest->version) : std::string("not yet published")),
          "Ask for 'latest'."};
}

std::optional<ModelRecord> find_model(const ModelIndex& models, const std::string& text) {
  const auto version = parse_unsigned(text);
  if (!version || *version > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
  return models.find(static_cast<Version>(*version));
}

// Sends a stretch of an open file as the body, on a thread that may wait for the disk.
Task<void> send_file(Exchange& exchange, int fd, ByteRange range) {
  const HttpLimits& limits = exchange.service().config.limits;
  std::vector<std::byte> buffer(read_bytes);
  (void)::posix_fadvise(fd, static_cast<off_t>(range.first), static_cast<off_t>(range.count),
                        POSIX_FADV_SEQUENTIAL);
  while (range.count > 0) {
    const std::size_t want =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), range.count));
    const ssize_t count = ::pread(fd, buffer.data(), want, static_cast<off_t>(range.first));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      // The length was promised; ending the connection is the only way to say that it is wrong.
      exchange.end_connection();
      co_return;
    }
    exchange.stream().allow(limits.progress_time);
    const auto bytes = std::span<const std::byte>(buffer).first(static_cast<std::size_t>(count));
    const bool sent = co_await exchange.stream().write(bytes);
    if (!sent) {
      exchange.end_connection();
      co_return;
    }
    range.first += static_cast<std::uint64_t>(count);
    range.count -= static_cast<std::uint64_t>(count);
  }
}

}  // namespace

Task<void> get_latest(Exchange& exchange) {
  const auto latest = exchange.service().ports.models->latest();
  if (!latest) {
    const Error why{Code::not_found, "the run has no model yet", ""};
    co_await exchange.refuse(why);
    co_return;
  }
  Response response;
  response.status = 307;
  response.headers.emplace_back("Location", "/v1/runs/" + exchange.service().config.run +
                                                "/models/" + std::to_string(latest->version));
  co_await exchange.respond(response);
}

Task<void> get_model(Exchange& exchange) {
  Service& service = exchange.service();
  const Request& request = exchange.request();
  const ModelIndex& models = *service.ports.models;
  const std::optional<ModelRecord> model = find_model(models, request.target.id);
  if (!model) {
    const Error why = unknown_version(models, request.target.id);
    co_await exchange.refuse(why);
    co_return;
  }
  Headers headers;
  headers.emplace_back("ETag", "\"" + model->sha256 + "\"");
  headers.emplace_back("Accept-Ranges", "bytes");
  if (names_tag(request.header("If-None-Match"), model->sha256)) {
    Response unchanged;
    unchanged.status = 304;
    unchanged.headers = std::move(headers);
    co_await exchange.respond(unchanged);
    co_return;
  }
  auto open = [path = service.ports.blobs->model_path(model->file)] {
    return open_file(path, O_RDONLY);
  };
  const auto fd = co_await offload(service.files(), std::move(open));
  struct stat status {};
  if (!fd || ::fstat(fd->get(), &status) != 0) {
    const Error why = unknown_version(models, request.target.id);
    co_await exchange.refuse(why);
    co_return;
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(status.st_size);
  RangeAsked asked;
  const std::string_view if_range = request.header("If-Range");
  if (if_range.empty() || names_tag(if_range, model->sha256)) {
    asked = parse_range(request.header("Range"), bytes);
  }
  if (asked.kind == RangeAsked::Kind::unsatisfiable) {
    headers.emplace_back("Content-Range", "bytes */" + std::to_string(bytes));
    const std::string what(request.header("Range"));
    const Error why{Code::usage,
                    "version " + request.target.id + " has " + std::to_string(bytes) +
                        " bytes, and the range '" + what + "' is beyond",
                    "Ask for a range within the file."};
    co_await exchange.refuse(why, headers, 416);
    co_return;
  }
  const bool part = asked.kind == RangeAsked::Kind::part;
  const ByteRange range = part ? asked.range : ByteRange{0, bytes};
  if (part) {
    headers.emplace_back("Content-Range", "bytes " + std::to_string(range.first) + "-" +
                                              std::to_string(range.first + range.count - 1) + "/" +
                                              std::to_string(bytes));
  }
  headers.emplace_back("Content-Type", "application/octet-stream");
  const bool begun = co_await exchange.begin(part ? 206 : 200, headers, range.count);
  if (!begun || request.verb == Verb::head) co_return;
  Task<void> sending = send_file(exchange, fd->get(), range);
  co_await asio::co_spawn(service.transfers(), std::move(sending), asio::use_awaitable);
  service.ports.metrics->add("fedqueue_model_bytes_total", static_cast<double>(range.count));
}

}  // namespace fedqueue::http
