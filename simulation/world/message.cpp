#include "simulation/world/message.h"

#include "core/protocol/messages.h"

namespace fedqueue::simulation {
namespace {

constexpr std::uint64_t head_bytes = 400;  // of a request or reply, with TLS records

}  // namespace

const char* to_text(Request::Kind kind) {
  switch (kind) {
    case Request::Kind::plan:
      return "plan";
    case Request::Kind::enrol:
      return "enrol";
    case Request::Kind::heartbeat:
      return "heartbeat";
    case Request::Kind::end_job:
      return "end-job";
    case Request::Kind::probe:
      return "probe";
    case Request::Kind::answer:
      return "answer";
    case Request::Kind::put:
      return "put";
    case Request::Kind::model:
      return "model";
    case Request::Kind::status:
      return "status";
  }
  return "status";
}

std::uint64_t wire_bytes(const Request& request) {
  const std::uint64_t body = request.content ? request.content->size() - request.from : 0;
  return head_bytes + request.body.size() + request.metadata.size() + body;
}

std::uint64_t wire_bytes(const Reply& reply) {
  const std::uint64_t content =
      reply.content && reply.content->size() > reply.from ? reply.content->size() - reply.from : 0;
  return head_bytes + reply.body.size() + content;
}

Error error_of(const Reply& reply) {
  Result<Problem> problem = decode<Problem>(reply.body);
  if (!problem) return {Code::network, "the server's answer cannot be understood", ""};
  // The server holds another number of bytes than it said before: the client asks again.
  if (problem->error.code == Code::conflict && reply.offset) {
    problem->error.code = Code::try_again;
  }
  return problem->error;
}

Reply reply_with(const Error& error) {
  Reply reply;
  reply.status = http_status(error.code);
  reply.body = encode(Problem{reply.status, error});
  return reply;
}

}  // namespace fedqueue::simulation
