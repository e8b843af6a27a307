// What travels between a simulated facility and the simulated server: the requests of protocol v1
// with the same JSON in them, less the framing of HTTP.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "simulation/world/bytes.h"

namespace fedqueue::simulation {

struct Request {
  enum class Kind { plan, enrol, heartbeat, end_job, probe, answer, put, model, status };
  Kind kind = Kind::status;
  std::string body;   // JSON of plan, enrol, heartbeat and end_job
  AttemptId attempt;  // heartbeat and end_job
  UpdateId update;    // probe, answer and put
  // put: the headers, and the update whose bytes from `from` on are the body.
  std::string metadata;
  std::string token;
  std::string digest;
  SharedBytes content;
  std::uint64_t from = 0;  // put and model
  Version version = 0;     // model
  std::string etag;        // model: of the part that is there already
};

struct Reply {
  int status = 200;
  std::string body;                     // JSON; a Problem from status 400 on
  std::optional<std::uint64_t> offset;  // durable bytes of an update
  bool stored = false;                  // probe: the update is decided
  std::string etag;                     // model
  SharedBytes content;                  // model: the whole; the body begins at `from`
  std::uint64_t from = 0;
  std::optional<std::uint64_t> cut_at;  // the connection ended before this byte of the content
};

[[nodiscard]] const char* to_text(Request::Kind kind);

// How many bytes go over the wire.
[[nodiscard]] std::uint64_t wire_bytes(const Request& request);
[[nodiscard]] std::uint64_t wire_bytes(const Reply& reply);

// The error that a reply stands for, as the client's link reads it.
[[nodiscard]] Error error_of(const Reply& reply);

// The reply that tells of an error, as the server words it.
[[nodiscard]] Reply reply_with(const Error& error);

}  // namespace fedqueue::simulation
