// Updates: resumable uploads, their decision, and asking for it again.
//
// The order of what a PUT does is UploadSteps' (fedserver/desk); here its steps are performed.
#include <algorithm>

#include "core/base/ids.h"
#include "fedserver/blobs/upload.h"
#include "fedserver/desk/upload_steps.h"
#include "fedserver/http/content.h"
#include "fedserver/http/routes.h"

namespace fedqueue::http {
namespace {

constexpr std::size_t receive_bytes = 256u << 10;
constexpr std::size_t digest_length = 32;

// The update in the target, if it is this facility's; otherwise the refusal was sent.
Task<std::optional<UpdateId>> own_update(Exchange& exchange) {
  const std::string& text = exchange.request().target.id;
  const Status own = check_owner(*exchange.facility(), text);
  if (own) co_return UpdateId(text);
  if (own.error().code == Code::identity) {
    exchange.service().log.warning("a facility asked for another's update",
                                   {{"facility", exchange.peer()->name()},
                                    {"update", text},
                                    {"peer", exchange.stream().peer_address()}});
  }
  co_await exchange.refuse(own.error());
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

Result<UploadOffer> read_offer(const Request& request, UpdateId id) {
  UploadOffer offer;
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
  offer.first = range->first;
  offer.count = range->count;
  offer.total = range->total;
  return offer;
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

// Performs the steps of one PUT.
class UploadRequest {
 public:
  UploadRequest(Exchange& exchange, UploadOffer offer)
      : exchange_(exchange),
        service_(exchange.service()),
        steps_(*exchange.facility(), std::move(offer)) {}

  Task<void> run() {
    while (steps_.step() != UploadSteps::Step::reply) co_await perform();
    co_await reply();
  }

 private:
  Task<void> perform() {
    switch (steps_.step()) {
      case UploadSteps::Step::ask:
      case UploadSteps::Step::decide:
        return ask();
      case UploadSteps::Step::take:
        return take();
      case UploadSteps::Step::begin:
        return begin();
      case UploadSteps::Step::receive:
        return receive();
      case UploadSteps::Step::settle:
        return settle();
      case UploadSteps::Step::screen:
        return screen();
      case UploadSteps::Step::put_aside:
      case UploadSteps::Step::reply:
        break;
    }
    return put_aside();
  }

  [[nodiscard]] const UploadOffer& offer() const { return steps_.offer(); }

  Task<void> ask() {
    const Event event = steps_.question();
    const std::optional<Answer> answer = co_await exchange_.ask(event);
    steps_.answered(answer);
  }

  Task<void> take() {
    bool waited = false;
    auto cut = [&service = service_, number = exchange_.connection()] {
      service.connections.cut(number);
    };
    std::optional<UploadSlots::Slot> slot =
        co_await service_.slots.take(offer().id, std::move(cut), waited);
    if (!slot) {
      steps_.not_taken();
      co_return;
    }
    slot_.emplace(std::move(*slot));
    steps_.taken(waited);
  }

  Task<void> begin() {
    auto work = [&blobs = *service_.ports.blobs, &offer = offer()] {
      return blobs.begin_upload(offer.id, offer.total, offer.first, offer.digest);
    };
    Result<std::unique_ptr<Upload>> upload = co_await offload(service_.files(), std::move(work));
    if (upload) {
      upload_ = std::move(*upload);
      steps_.begun({});
    } else {
      steps_.begun(upload.error());
    }
  }

  Task<void> receive() {
    const bool ready = co_await exchange_.go_ahead();
    bool cut = !ready;
    std::optional<Error> failed;
    if (ready) {
      Task<void> receiving = receive_body(cut, failed);
      co_await asio::co_spawn(service_.transfers(), std::move(receiving), asio::use_awaitable);
    }
    steps_.received(upload_->offset(), cut, failed);
  }

  // Takes the body. Runs among the transfers.
  Task<void> receive_body(bool& cut, std::optional<Error>& failed) {
    const HttpLimits& limits = service_.config.limits;
    std::vector<std::byte> buffer(receive_bytes);
    while (exchange_.body_left() > 0) {
      exchange_.stream().allow(limits.progress_time);
      const std::size_t wanted =
          static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), exchange_.body_left()));
      const std::size_t count = co_await exchange_.read_body(buffer);
      const auto bytes = std::span<const std::byte>(buffer).first(count);
      if (Status appended = upload_->append(bytes); !appended) {
        failed = appended.error();
        co_return;
      }
      if (count < wanted) {
        cut = true;
        break;
      }
    }
    exchange_.stream().allow(limits.answer_time);
  }

  // Makes durable what has arrived, and ends the upload. Waits for the disk.
  Task<void> settle() {
    auto work = [this]() -> Status {
      Status settled;
      if (!steps_.whole()) {
        settled = upload_->suspend();
      } else if (Result<std::filesystem::path> path = upload_->finish()) {
        path_ = *path;
      } else {
        settled = path.error();
      }
      upload_.reset();
      return settled;
    };
    const Status settled = co_await offload(service_.files(), std::move(work));
    service_.ports.metrics->add(
        "fedqueue_update_bytes_total",
        static_cast<double>(exchange_.request().body_bytes - exchange_.body_left()));
    steps_.settled(settled);
    if (steps_.step() == UploadSteps::Step::screen) slot_->settle();
  }

  Task<void> screen() {
    auto start = [this](std::function<void(Result<double>)> reply) {
      service_.ports.screen(path_, offer().metadata, std::move(reply));
    };
    const std::optional<Result<double>> screened =
        co_await service_.desk.ask<Result<double>>(std::move(start));
    steps_.screened(screened ? *screened : Result<double>(ending_error()));
    if (screened && steps_.step() == UploadSteps::Step::put_aside) {
      service_.log.error(screened->error(), {{"update", offer().id}});
    }
  }

  Task<void> put_aside() {
    auto work = [&blobs = *service_.ports.blobs, &id = offer().id,
                 again = steps_.may_come_again()] {
      return again ? blobs.reopen_update(id) : blobs.remove_update(id);
    };
    const Status done = co_await offload(service_.files(), std::move(work));
    if (!done) service_.log.error(done.error(), {{"update", offer().id}});
    steps_.put_aside_done();
  }

  Task<void> reply() {
    const UploadSteps::Ending& ending = steps_.ending();
    switch (ending.kind) {
      case UploadSteps::Ending::Kind::answer:
        co_await exchange_.respond_answer(ending.answer, ending.status);
        co_return;
      case UploadSteps::Ending::Kind::refuse:
        if (ending.with_offset) {
          co_await refuse_with_offset(exchange_, offer().id, *ending.error);
        } else {
          co_await exchange_.refuse(*ending.error);
        }
        co_return;
      case UploadSteps::Ending::Kind::more: {
        Response response;
        response.status = ending.status;
        response.body = "{}";
        response.headers.emplace_back(header_offset, std::to_string(ending.offset));
        co_await exchange_.respond(response);
        co_return;
      }
      case UploadSteps::Ending::Kind::cut:
        service_.log.info("an upload was cut; it can go on",
                          {{"facility", exchange_.peer()->name()}, {"update", offer().id}});
        exchange_.end_connection();
        co_return;
    }
  }

  Exchange& exchange_;
  Service& service_;
  UploadSteps steps_;
  std::optional<UploadSlots::Slot> slot_;
  std::unique_ptr<Upload> upload_;
  std::filesystem::path path_;
};

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
  const Result<UploadOffer> offer = read_offer(request, *id);
  if (!offer) {
    co_await exchange.refuse(offer.error());
    co_return;
  }
  if (const std::uint64_t most = service.ports.blobs->limits().update_bytes_max;
      offer->total > most) {
    const Error why{Code::too_large,
                    "store update '" + id->str() + "': it has " + std::to_string(offer->total) +
                        " bytes, but at most " + std::to_string(most) + " are allowed",
                    "Send a delta of the run's own model."};
    co_await exchange.refuse(why);
    co_return;
  }
  UploadRequest upload(exchange, *offer);
  co_await upload.run();
}

}  // namespace fedqueue::http
