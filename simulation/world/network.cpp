#include "simulation/world/network.h"

#include <algorithm>
#include <utility>

namespace fedqueue::simulation {

struct Network::Call {
  FacilityId facility;
  std::shared_ptr<const Request> request;
  std::weak_ptr<const int> life;
  Done done;
  Clock::Ticket timeout = 0;
  bool settled = false;
};

void Network::call(const FacilityId& facility, Request request, const Life& life, Done done) {
  auto call = std::make_shared<Call>();
  call->facility = facility;
  call->request = std::make_shared<const Request>(std::move(request));
  call->life = life;
  call->done = std::move(done);
  const NetworkPath& path = paths_[facility];
  const std::uint64_t bytes = wire_bytes(*call->request);
  const double transfer_s = static_cast<double>(bytes) / path.up_bytes_per_s;
  // Generous enough for a model that comes back, as a transfer is watched for progress alone.
  const double patience_s = timeout_s_ + 4 * transfer_s;
  call->timeout = clock_.after(from_seconds(patience_s), "time-out", [this, call] {
    settle(call, Error{Code::network_timeout,
                       "no answer to '" + std::string(to_text(call->request->kind)) + "'", ""});
  });
  NetworkFate fate;
  if (faults_ != nullptr) fate = faults_->fate(facility, true, call->request->kind);
  if (fate.lost) return;
  // The body of an upload is drawn by the server; the rest comes as one.
  const bool drawn = call->request->kind == Request::Kind::put;
  const double delay_s = path.latency_s + fate.delay_s + (drawn ? 0 : transfer_s);
  carry(call, fate, delay_s);
  if (fate.doubled) carry(call, {}, delay_s + path.latency_s * 3 + fate.delay_s);
}

void Network::carry(const std::shared_ptr<Call>& call, const NetworkFate& fate, double delay_s) {
  clock_.after(from_seconds(delay_s), "request", [this, call, fate] {
    const Request& request = *call->request;
    clock_.trace().mix(static_cast<std::uint64_t>(request.kind));
    clock_.trace().mix(request.body);
    BodyFlow flow;
    flow.bytes_per_s = paths_[call->facility].up_bytes_per_s;
    flow.piece_bytes = piece_bytes_;
    if (fate.cut && request.content) {
      const auto body = static_cast<double>(request.content->size() - request.from);
      flow.cut_at = static_cast<std::uint64_t>(body * *fate.cut);
    } else if (fate.cut) {
      return;  // half a request is none
    }
    const bool heard =
        listener_.receive(call->facility, call->request, flow,
                          [this, call](auto reply) { carry_back(call, std::move(reply)); });
    if (heard) return;
    clock_.after(from_seconds(paths_[call->facility].latency_s), "refused", [this, call] {
      settle(call, Error{Code::network_refused, "nobody listens", ""});
    });
  });
}

void Network::carry_back(const std::shared_ptr<Call>& call, std::optional<Reply> reply) {
  const NetworkPath& path = paths_[call->facility];
  if (!reply) {
    clock_.after(from_seconds(path.latency_s), "cut", [this, call] {
      settle(call, Error{Code::network, "the connection was cut", ""});
    });
    return;
  }
  NetworkFate fate;
  if (faults_ != nullptr) fate = faults_->fate(call->facility, false, call->request->kind);
  if (fate.lost) return;
  const double transfer_s = static_cast<double>(wire_bytes(*reply)) / path.down_bytes_per_s;
  if (fate.cut && reply->content) {
    const auto body = static_cast<double>(reply->content->size() - reply->from);
    reply->cut_at = reply->from + static_cast<std::uint64_t>(body * *fate.cut);
  } else if (fate.cut) {
    return carry_back(call, std::nullopt);
  }
  const double delay_s = path.latency_s + fate.delay_s + transfer_s;
  clock_.after(from_seconds(delay_s), "reply", [this, call, reply = std::move(*reply)] {
    clock_.trace().mix(static_cast<std::uint64_t>(reply.status));
    clock_.trace().mix(reply.body);
    if (reply.status >= 400) {
      settle(call, error_of(reply));
    } else {
      settle(call, reply);
    }
  });
}

void Network::settle(const std::shared_ptr<Call>& call, Result<Reply> result) {
  if (std::exchange(call->settled, true)) return;
  clock_.cancel(call->timeout);
  if (call->life.expired()) return;
  // Kept alive beyond its own end, since the callee may drop what holds it.
  const Done done = std::move(call->done);
  done(std::move(result));
}

}  // namespace fedqueue::simulation
