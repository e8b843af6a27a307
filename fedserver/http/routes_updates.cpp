// Updates: resumable uploads, their decision, and asking for it again.
//
//   PUT: who ─▶ may it be sent? (engine) ─▶ one sender ─▶ bytes ─▶ checksum ─▶ screening ─▶
//   decision (engine) ─▶ answer
//
// Nothing is taken before the engine has agreed; nothing is answered before it is durable.
#include <algorithm>

#include "core/base/ids.h"
#include "fedserver/blobs/upload.h"
#include "fedserver/http/content.h"
#include "fedserver/http/routes.h"

namespace fedqueue::http {
namespace {

constexpr std::size_t receive_bytes = 256u << 10;
constexpr std::size_t digest_length = 32;

struct Offer {
  UpdateId id;
  UpdateMetadata metadata;
  std::string token;
  std::string digest;
  ContentRange range;
};

// The update in the target, if it is this facility's; otherwise the refusal was sent.
Task<std::optional<UpdateId>> own_update(Exchange& exchange) {
  const std::string& text = exchange.request().target.id;
  const Result<UpdateParts> parts = parse_update_id(text);
  if (!parts) {
    co_await exchange.refuse(parts.error());
    co_return std::nullopt;
  }
  if (parts->facility == *exchange.facility()) co_return UpdateId(text);
  const std::string& name = exchange.peer()->name();
  exchange.service().log.warning(
      "a facility asked for another's update",
      {{"facility", name}, {"update", text}, {"peer", exchange.stream().peer_address()}});
  const Error why{Code::identity,
                  "update '" + text + "' belongs to facility '" + parts->facility.str() +
                      "', and this certificate to '" + name + "'",
                  "Use the kit of the facility that trained the update."};
  co_await exchange.refuse(why);
  co_return std::nullopt;
}

Result<ContentRange> range_of(const Request& request) {
  const std::string_view header = request.header("Content-Range");
  if (header.empty()) return ContentRange{0, request.body_bytes, request.body_bytes};
  Result<ContentRange> range = parse_content_range(header);
  if (range && range->count != request.body_bytes) {
    return Error{Code::usage,
                 "read the Content-Range header: it announces " + std::to_string(range->count) +
                     " bytes, and Content-Length " + std::to_string(request.body_bytes),
                 "Make the two agree."};
  }
  return range;
}

bool is_digest(std::string_view text) {
  return text.size() == digest_length && std::all_of(text.begin(), text.end(), [](char letter) {
           return (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'f');
         });
}

Result<Offer> read_offer(const Request& request, UpdateId id) {
  Offer offer;
  offer.id = std::move(id);
  const auto refuse = [&](const char* header, const std::string& expected) {
    return Error{Code::usage,
                 "read the " + std::string(header) + " header of update '" + offer.id.str() +
                     "': expected " + expected,
                 "See docs/protocol.md, \"Uploads\"."};
  };
  offer.digest = std::string(request.header(header_digest));
  if (!is_digest(offer.digest)) {
    return refuse(header_digest, "the XXH3-128 of the whole body, 32 hexadecimal digits");
  }
  offer.token = std::string(request.header(header_token));
  if (offer.token.empty()) return refuse(header_token, "the token that registering returned");
  const std::string_view metadata = request.header(header_metadata);
  if (metadata.empty() || metadata.size() > metadata_bytes_max) {
    return refuse(header_metadata,
                  "a JSON object of at most " + std::to_string(metadata_bytes_max) + " bytes");
  }
  Result<UpdateMetadata> decoded = decode<UpdateMetadata>(metadata);
  if (!decoded) return decoded.error();
  offer.metadata = *decoded;
  Result<ContentRange> range = range_of(request);
  if (!range) return range.error();
  if (range->total == 0) return refuse("Content-Length", "at least one byte");
  offer.range = *range;
  return offer;
}

Event offered(const Exchange& exchange, const Offer& offer) {
  return UploadOffered{*exchange.facility(), offer.id, offer.metadata, offer.token,
                       offer.range.total};
}

// True when the engine wants the bytes; otherwise its answer was sent.
Task<bool> wanted(Exchange& exchange, const Offer& offer) {
  const Event event = offered(exchange, offer);
  const std::optional<Answer> answer = co_await exchange.ask(event);
  if (answer && std::holds_alternative<Accepted>(*answer)) co_return true;
  co_await exchange.respond_answer(answer, 200);
  co_return false;
}

std::string durable_text(BlobStore& blobs, const UpdateId& id) {
  const auto bytes = blobs.durable_bytes(id);
  return std::to_string(bytes && *bytes ? **bytes : 0);
}

// Refuses with the number of bytes from which the client may go on.
Task<void> refuse_with_offset(Exchange& exchange, const UpdateId& id, const Error& error) {
  Service& service = exchange.service();
  auto look = [&blobs = *service.ports.blobs, &id] { return durable_text(blobs, id); };
  std::string durable = co_await offload(service.files(), std::move(look));
  Headers headers;
  headers.emplace_back(header_offset, std::move(durable));
  co_await exchange.refuse(error, headers, http_status(error.code));
}

struct Received {
  bool cut = false;
  bool complete = false;
  std::optional<Error> failed;
  std::filesystem::path path;
};

// Takes the body. Runs among the transfers.
Task<void> receive(Exchange& exchange, Upload& upload, Received& received) {
  const HttpLimits& limits = exchange.service().config.limits;
  std::vector<std::byte> buffer(receive_bytes);
  while (exchange.body_left() > 0) {
    exchange.stream().allow(limits.progress_time);
    const std::size_t wanted_bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), exchange.body_left()));
    const std::size_t count = co_await exchange.read_body(buffer);
    const auto bytes = std::span<const std::byte>(buffer).first(count);
    if (Status appended = upload.append(bytes); !appended) {
      received.failed = appended.error();
      co_return;
    }
    if (count < wanted_bytes) {
      received.cut = true;
      break;
    }
  }
  exchange.stream().allow(limits.answer_time);
}

// Makes durable what has arrived, and ends the upload. Waits for the disk.
bool settle(std::unique_ptr<Upload>& upload, Received& received) {
  if (received.cut || received.failed || upload->offset() < upload->bytes_total()) {
    const Status kept = upload->suspend();
    if (!kept && !received.failed) received.failed = kept.error();
  } else if (Result<std::filesystem::path> path = upload->finish()) {
    received.path = *path;
    received.complete = true;
  } else {
    received.failed = path.error();
  }
  upload.reset();
  return received.complete;
}

// What becomes of the bytes of an update that the engine did not decide.
Task<void> put_aside(Service& service, const UpdateId& id, const Error& error) {
  const bool again = error.code == Code::try_again;
  auto work = [&blobs = *service.ports.blobs, &id, again] {
    return again ? blobs.reopen_update(id) : blobs.remove_update(id);
  };
  const Status done = co_await offload(service.files(), std::move(work));
  if (!done) service.log.error(done.error(), {{"update", id}});
}

// Whether the screening failed for a reason of this machine, and not of the update.
bool is_fault_of_server(Code code) {
  return code == Code::storage || code == Code::storage_full || code == Code::try_again ||
         code == Code::internal;
}

// Screening and decision of a complete update.
Task<void> decide(Exchange& exchange, const Offer& offer, const std::filesystem::path& path) {
  Service& service = exchange.service();
  auto start = [&screen = service.ports.screen, &path,
                &offer](std::function<void(Result<double>)> reply) {
    screen(path, offer.metadata, std::move(reply));
  };
  const std::optional<Result<double>> screened =
      co_await service.desk.ask<Result<double>>(std::move(start));
  if (!screened) {
    const Error why = ending_error();
    co_await exchange.refuse(why);
    co_return;
  }
  const FacilityId facility = *exchange.facility();
  Event event = UpdateStored{facility,          offer.id, offer.metadata, offer.token, offer.digest,
                             offer.range.total, 0};
  if (screened->has_value()) {
    std::get<UpdateStored>(event).norm = **screened;
  } else if (!is_fault_of_server(screened->error().code)) {
    event = UpdateRefused{facility, offer.id, offer.metadata, offer.token, screened->error()};
  } else {
    const Error later{Code::try_again, screened->error().message, screened->error().cure};
    service.log.error(screened->error(), {{"update", offer.id}});
    co_await put_aside(service, offer.id, later);
    co_await exchange.refuse(later);
    co_return;
  }
  const std::optional<Answer> answer = co_await exchange.ask(event);
  if (answer && std::holds_alternative<Error>(*answer)) {
    const Error error = std::get<Error>(*answer);
    co_await put_aside(service, offer.id, error);
  }
  co_await exchange.respond_answer(answer, 201);
}

Task<void> take_update(Exchange& exchange, const Offer& offer, UploadSlots::Slot& slot) {
  Service& service = exchange.service();
  auto begin = [&blobs = *service.ports.blobs, &offer] {
    return blobs.begin_upload(offer.id, offer.range.total, offer.range.first, offer.digest);
  };
  Result<std::unique_ptr<Upload>> upload = co_await offload(service.files(), std::move(begin));
  if (!upload) {
    co_await refuse_with_offset(exchange, offer.id, upload.error());
    co_return;
  }
  const bool ready = co_await exchange.go_ahead();
  Received received;
  received.cut = !ready;
  if (ready) {
    Task<void> receiving = receive(exchange, **upload, received);
    co_await asio::co_spawn(service.transfers(), std::move(receiving), asio::use_awaitable);
  }
  auto end = [&upload, &received] { return settle(*upload, received); };
  const bool complete = co_await offload(service.files(), std::move(end));
  service.ports.metrics->add(
      "fedqueue_update_bytes_total",
      static_cast<double>(exchange.request().body_bytes - exchange.body_left()));
  if (received.failed) {
    co_await refuse_with_offset(exchange, offer.id, *received.failed);
    co_return;
  }
  if (received.cut) {
    service.log.info("an upload was cut; it can go on",
                     {{"facility", exchange.peer()->name()}, {"update", offer.id}});
    exchange.end_connection();
    co_return;
  }
  if (!complete) {
    Response response;
    response.status = 202;
    response.body = "{}";
    response.headers.emplace_back(header_offset,
                                  std::to_string(offer.range.first + offer.range.count));
    co_await exchange.respond(response);
    co_return;
  }
  slot.settle();
  co_await decide(exchange, offer, received.path);
}

}  // namespace

Task<void> head_update(Exchange& exchange) {
  const std::optional<UpdateId> id = co_await own_update(exchange);
  if (!id) co_return;
  Service& service = exchange.service();
  const Event event = UpdateAsked{*exchange.facility(), *id};
  const std::optional<Answer> answer = co_await exchange.ask(event);
  Response response;
  if (answer && std::holds_alternative<UpdateAnswer>(*answer)) {
    response.headers.emplace_back("Fedqueue-State", "stored");
    response.headers.emplace_back(
        header_offset, std::to_string(service.ports.models->decided_bytes(*id).value_or(0)));
    co_await exchange.respond(response);
    co_return;
  }
  const Error* error = answer ? std::get_if<Error>(&*answer) : nullptr;
  if (error == nullptr || error->code != Code::not_found) {
    co_await exchange.respond_answer(answer, 200);
    co_return;
  }
  auto look = [&blobs = *service.ports.blobs, &id] { return blobs.durable_bytes(*id); };
  const auto durable = co_await offload(service.files(), std::move(look));
  if (!durable || !*durable) {
    const Error why = durable ? *error : durable.error();
    co_await exchange.refuse(why);
    co_return;
  }
  response.headers.emplace_back(header_offset, std::to_string(**durable));
  co_await exchange.respond(response);
}

Task<void> get_update(Exchange& exchange) {
  const std::optional<UpdateId> id = co_await own_update(exchange);
  if (!id) co_return;
  const Event event = UpdateAsked{*exchange.facility(), *id};
  co_await exchange.ask_and_respond(event);
}

Task<void> put_update(Exchange& exchange) {
  const std::optional<UpdateId> id = co_await own_update(exchange);
  if (!id) co_return;
  Service& service = exchange.service();
  const Request& request = exchange.request();
  if (request.chunked || !request.has_length) {
    const Error why{Code::usage, "store update '" + id->str() + "': its length was not announced",
                    "Send a Content-Length instead of chunks."};
    const Headers none;
    co_await exchange.refuse(why, none, 411);
    co_return;
  }
  const Result<Offer> offer = read_offer(request, *id);
  if (!offer) {
    co_await exchange.refuse(offer.error());
    co_return;
  }
  if (const std::uint64_t most = service.ports.blobs->limits().update_bytes_max;
      offer->range.total > most) {
    const Error why{Code::too_large,
                    "store update '" + id->str() + "': it has " +
                        std::to_string(offer->range.total) + " bytes, but at most " +
                        std::to_string(most) + " are allowed",
                    "Send a delta of the run's own model."};
    co_await exchange.refuse(why);
    co_return;
  }
  const bool first_answer = co_await wanted(exchange, *offer);
  if (!first_answer) co_return;
  bool waited = false;
  auto cut = [&service, number = exchange.connection()] { service.connections.cut(number); };
  std::optional<UploadSlots::Slot> slot = co_await service.slots.take(*id, std::move(cut), waited);
  if (!slot) {
    const Error why = ending_error();
    co_await exchange.refuse(why);
    co_return;
  }
  if (waited) {
    // The other request may have brought the update to its decision.
    const bool still_wanted = co_await wanted(exchange, *offer);
    if (!still_wanted) co_return;
  }
  co_await take_update(exchange, *offer, *slot);
}

}  // namespace fedqueue::http
