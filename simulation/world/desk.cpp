#include "simulation/world/desk.h"

#include <algorithm>
#include <utility>

#include "core/protocol/messages.h"

namespace fedqueue::simulation {
namespace {

struct ToBody {
  std::string operator()(const Accepted&) const { return "{}"; }
  std::string operator()(const PlanAnswer& answer) const { return encode(answer); }
  std::string operator()(const JobAnswer& answer) const { return encode(answer); }
  std::string operator()(const HeartbeatAnswer& answer) const { return encode(answer); }
  std::string operator()(const UpdateAnswer& answer) const { return encode(answer); }
  std::string operator()(const std::string& document) const { return document; }
  std::string operator()(const Error&) const { return "{}"; }
};

Reply reply_of(const Answer& answer, int status = 200) {
  if (const Error* error = std::get_if<Error>(&answer)) return reply_with(*error);
  Reply reply;
  reply.status = status;
  reply.body = std::visit(ToBody{}, answer);
  return reply;
}

Result<Event> event_of(const FacilityId& peer, const Request& request, std::string fresh_token) {
  switch (request.kind) {
    case Request::Kind::plan: {
      Result<PlanRequest> plan = decode<PlanRequest>(request.body);
      if (!plan) return plan.error();
      return Event(PlanRequested{peer, std::move(*plan)});
    }
    case Request::Kind::enrol: {
      Result<JobRegistration> job = decode<JobRegistration>(request.body);
      if (!job) return job.error();
      return Event(AttemptArrived{peer, std::move(*job), std::move(fresh_token)});
    }
    case Request::Kind::heartbeat: {
      Result<Heartbeat> heartbeat = decode<Heartbeat>(request.body);
      if (!heartbeat) return heartbeat.error();
      return Event(HeartbeatArrived{peer, request.attempt, std::move(*heartbeat)});
    }
    case Request::Kind::end_job: {
      Result<JobEnd> end = decode<JobEnd>(request.body);
      if (!end) return end.error();
      return Event(AttemptLeft{peer, request.attempt, std::move(*end)});
    }
    case Request::Kind::answer:
      return Event(UpdateAsked{peer, request.update});
    default:
      return Event(StatusRequested{peer});
  }
}

}  // namespace

void Desk::receive(const FacilityId& peer, const std::shared_ptr<const Request>& request,
                   const BodyFlow& flow, Listener::Respond respond) {
  switch (request->kind) {
    case Request::Kind::probe:
      return probe(peer, request, std::move(respond));
    case Request::Kind::put:
      return put(peer, request, flow, std::move(respond));
    case Request::Kind::model:
      return send_model(peer, *request, respond);
    default:
      break;
  }
  if (request->kind == Request::Kind::answer) {
    if (Status own = check_owner(peer, request->update.str()); !own) {
      return reply(peer, *request, respond, reply_with(own.error()));
    }
  }
  const bool enrols = request->kind == Request::Kind::enrol;
  Result<Event> event = event_of(peer, *request, enrols ? process_.fresh_token() : std::string());
  if (!event) return reply(peer, *request, respond, reply_with(event.error()));
  ask(peer, request, std::move(*event), std::move(respond));
}

void Desk::reply(const FacilityId& peer, const Request& request, const Listener::Respond& respond,
                 Reply reply) {
  process_.witness.on_reply(peer, request, reply, process_.disk);
  respond(std::move(reply));
}

void Desk::ask(const FacilityId& peer, const std::shared_ptr<const Request>& request, Event event,
               Listener::Respond respond) {
  const bool taken =
      process_.post(std::move(event), [this, peer, request, respond](const Answer& answer) {
        reply(peer, *request, respond, reply_of(answer));
      });
  if (taken) return;
  reply(peer, *request, respond, reply_with({Code::try_again, "the server is busy", ""}));
}

void Desk::probe(const FacilityId& peer, const std::shared_ptr<const Request>& request,
                 Listener::Respond respond) {
  if (Status own = check_owner(peer, request->update.str()); !own) {
    return reply(peer, *request, respond, reply_with(own.error()));
  }
  const auto answered = [this, peer, request, respond](const Answer& answer) {
    Reply said;
    if (std::holds_alternative<UpdateAnswer>(answer)) {
      said.stored = true;
      return reply(peer, *request, respond, std::move(said));
    }
    const Error* error = std::get_if<Error>(&answer);
    if (error == nullptr || error->code != Code::not_found) {
      return reply(peer, *request, respond, reply_of(answer));
    }
    const auto durable = process_.blobs.durable_bytes(request->update);
    if (!durable || !*durable) {
      return reply(peer, *request, respond, reply_with(durable ? *error : durable.error()));
    }
    said.offset = **durable;
    reply(peer, *request, respond, std::move(said));
  };
  if (process_.post(UpdateAsked{peer, request->update}, answered)) return;
  reply(peer, *request, respond, reply_with({Code::try_again, "the server is busy", ""}));
}

void Desk::send_model(const FacilityId& peer, const Request& request,
                      const Listener::Respond& respond) {
  const std::map<Version, ModelRecord>& models = process_.engine().state().models;
  const auto model = models.find(request.version);
  SharedBytes content;
  if (model != models.end()) {
    content = process_.disk.content(process_.blobs.model_path(model->second.file));
  }
  if (!content) {
    return reply(peer, request, respond,
                 reply_with({Code::not_found,
                             "there is no version " + std::to_string(request.version), ""}));
  }
  Reply said;
  said.etag = model->second.sha256;
  said.content = std::move(content);
  if (request.etag == said.etag && request.from < said.content->size()) said.from = request.from;
  reply(peer, request, respond, std::move(said));
}

// --- uploads

void Desk::put(const FacilityId& peer, const std::shared_ptr<const Request>& request,
               const BodyFlow& flow, Listener::Respond respond) {
  if (Status own = check_owner(peer, request->update.str()); !own) {
    return reply(peer, *request, respond, reply_with(own.error()));
  }
  Result<UpdateMetadata> metadata = decode<UpdateMetadata>(request->metadata);
  if (!metadata) return reply(peer, *request, respond, reply_with(metadata.error()));
  const std::uint64_t total = request->content->size();
  UploadOffer offer{
      request->update,       *metadata, request->token, request->digest, request->from,
      total - request->from, total};
  const std::uint64_t number = ++last_number_;
  uploads_.emplace(number, Incoming{peer,
                                    request,
                                    flow,
                                    std::move(respond),
                                    UploadSteps(peer, std::move(offer)),
                                    nullptr,
                                    {},
                                    0,
                                    false,
                                    false,
                                    false});
  proceed(number);
}

Desk::Incoming* Desk::find(std::uint64_t number) {
  const auto found = uploads_.find(number);
  return found == uploads_.end() ? nullptr : &found->second;
}

void Desk::proceed(std::uint64_t number) {
  for (;;) {
    Incoming& incoming = uploads_.at(number);
    switch (incoming.steps.step()) {
      case UploadSteps::Step::ask:
      case UploadSteps::Step::decide:
        return ask_about(number, incoming);
      case UploadSteps::Step::take:
        take_place(number, incoming, false);
        if (!incoming.has_place) return;
        break;
      case UploadSteps::Step::begin: {
        const UploadOffer& offer = incoming.steps.offer();
        Result<std::unique_ptr<Upload>> upload =
            process_.blobs.begin_upload(offer.id, offer.total, offer.first, offer.digest);
        if (upload) incoming.upload = std::move(*upload);
        incoming.steps.begun(upload ? Status() : Status(upload.error()));
        break;
      }
      case UploadSteps::Step::receive:
        incoming.receiving = true;
        return receive_piece(number);
      case UploadSteps::Step::settle:
        settle(incoming);
        break;
      case UploadSteps::Step::screen:
        return screen(number);
      case UploadSteps::Step::put_aside: {
        const UpdateId& id = incoming.steps.offer().id;
        (void)(incoming.steps.may_come_again() ? process_.blobs.reopen_update(id)
                                               : process_.blobs.remove_update(id));
        incoming.steps.put_aside_done();
        break;
      }
      case UploadSteps::Step::reply:
        return finish(number);
    }
  }
}

void Desk::ask_about(std::uint64_t number, Incoming& incoming) {
  const bool taken = process_.post(incoming.steps.question(), [this, number](const Answer& answer) {
    // Within the driver's turn: what follows may ask again.
    process_.later(0, "answered", [this, number, answer] {
      Incoming* asked = find(number);
      if (asked == nullptr) return;
      asked->steps.answered(answer);
      proceed(number);
    });
  });
  if (taken) return;
  incoming.steps.answered(Answer(Error{Code::try_again, "the server is busy", ""}));
  process_.later(0, "busy", [this, number] { proceed(number); });
}

// A newer request for the same update takes over: an older one that is still receiving is cut.
void Desk::take_place(std::uint64_t number, Incoming& incoming, bool waited) {
  Place& place = places_[incoming.steps.offer().id];
  if (place.holder == 0) {
    place.holder = number;
    incoming.has_place = true;
    incoming.steps.taken(waited);
    return;
  }
  if (Incoming* holder = find(place.holder)) holder->cut = holder->cut || holder->receiving;
  place.waiting.push_back(number);
}

void Desk::receive_piece(std::uint64_t number) {
  Incoming& incoming = uploads_.at(number);
  const BodyFlow& flow = incoming.flow;
  const std::uint64_t body = incoming.steps.offer().count;
  const std::uint64_t end = std::min(body, flow.cut_at.value_or(body));
  const bool at_end = incoming.received >= end;
  if (incoming.cut || at_end) {
    incoming.receiving = false;
    incoming.steps.received(incoming.upload->offset(), incoming.cut || end < body, std::nullopt);
    return proceed(number);
  }
  const std::uint64_t left = end - incoming.received;
  const std::uint64_t piece = flow.piece_bytes > 0 ? std::min(flow.piece_bytes, left) : left;
  const double seconds = static_cast<double>(piece) / flow.bytes_per_s;
  process_.later(seconds, "piece", [this, number, piece] {
    Incoming& receiver = uploads_.at(number);
    const std::uint64_t from = receiver.request->from + receiver.received;
    const auto bytes =
        std::span<const std::byte>(*receiver.request->content)
            .subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(piece));
    const Status appended = receiver.upload->append(bytes);
    receiver.received += piece;
    if (appended) return receive_piece(number);
    receiver.receiving = false;
    receiver.steps.received(receiver.upload->offset(), false, appended.error());
    proceed(number);
  });
}

void Desk::settle(Incoming& incoming) {
  Status settled;
  if (!incoming.steps.whole()) {
    settled = incoming.upload->suspend();
  } else if (Result<std::filesystem::path> path = incoming.upload->finish()) {
    incoming.path = *path;
  } else {
    settled = path.error();
  }
  incoming.upload.reset();
  incoming.steps.settled(settled);
}

void Desk::screen(std::uint64_t number) {
  process_.later(process_.screen_s, "screen", [this, number] {
    Incoming& incoming = uploads_.at(number);
    const RunState& state = process_.engine().state();
    const Result<SharedBytes> update = process_.disk.read(incoming.path);
    const Result<SharedBytes> model =
        process_.disk.read(process_.blobs.model_path(state.models.at(state.latest).file));
    if (!update) {
      incoming.steps.screened(update.error());
    } else if (!model) {
      incoming.steps.screened(model.error());
    } else {
      incoming.steps.screened(process_.algebra.screen(**update, **model, process_.norm_max));
    }
    proceed(number);
  });
}

void Desk::finish(std::uint64_t number) {
  Incoming incoming = std::move(uploads_.at(number));
  uploads_.erase(number);
  const UpdateId id = incoming.steps.offer().id;
  if (incoming.has_place) {
    Place place = std::move(places_.at(id));
    places_.erase(id);
    for (const std::uint64_t waiting : place.waiting) {
      process_.later(0, "place", [this, waiting] {
        Incoming* next = find(waiting);
        if (next == nullptr) return;
        take_place(waiting, *next, true);
        if (next->has_place) proceed(waiting);
      });
    }
  }
  const UploadSteps::Ending& ending = incoming.steps.ending();
  switch (ending.kind) {
    case UploadSteps::Ending::Kind::answer:
      return reply(incoming.peer, *incoming.request, incoming.respond,
                   reply_of(*ending.answer, ending.status));
    case UploadSteps::Ending::Kind::refuse: {
      Reply said = reply_with(*ending.error);
      if (ending.with_offset) {
        const auto durable = process_.blobs.durable_bytes(id);
        said.offset = durable && *durable ? **durable : 0;
      }
      return reply(incoming.peer, *incoming.request, incoming.respond, std::move(said));
    }
    case UploadSteps::Ending::Kind::more: {
      Reply said;
      said.status = ending.status;
      said.offset = ending.offset;
      return reply(incoming.peer, *incoming.request, incoming.respond, std::move(said));
    }
    case UploadSteps::Ending::Kind::cut:
      return incoming.respond(std::nullopt);
  }
}

}  // namespace fedqueue::simulation
