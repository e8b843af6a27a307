// The simulated network between facilities and server: latency, bandwidth, and faults.
//
// A request is carried to the server, its reply back. Either may be lost, doubled, delayed (and so
// overtake others) or cut; then the caller hears of it by its time-out, as over TCP.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "core/base/ids.h"
#include "simulation/clock/clock.h"
#include "simulation/world/message.h"

namespace fedqueue::simulation {

// One facility's way to the server.
struct NetworkPath {
  double latency_s = 0.02;         // one way
  double up_bytes_per_s = 12.5e6;  // to the server
  double down_bytes_per_s = 12.5e6;
};

struct NetworkFate {
  bool lost = false;
  bool doubled = false;
  double delay_s = 0;
  std::optional<double> cut;  // the connection ends after this fraction of the body
};

class NetworkFaults {
 public:
  virtual ~NetworkFaults() = default;
  virtual NetworkFate fate(const FacilityId& facility, bool upward, Request::Kind kind) = 0;
};

// How the body of an upload arrives: in pieces, so that something may happen in between.
struct BodyFlow {
  double bytes_per_s = 12.5e6;
  std::uint64_t piece_bytes = 0;        // 0: in one
  std::optional<std::uint64_t> cut_at;  // within the body
};

// What the network brings requests to.
class Listener {
 public:
  // Nothing: the connection ended without an answer.
  using Respond = std::function<void(std::optional<Reply>)>;
  virtual ~Listener() = default;
  // False: nobody listens.
  virtual bool receive(const FacilityId& peer, std::shared_ptr<const Request> request,
                       const BodyFlow& flow, Respond respond) = 0;
};

// The right to hear of what one has asked for; dropped at the end of the asking process.
using Life = std::shared_ptr<const int>;
[[nodiscard]] inline Life new_life() { return std::make_shared<const int>(0); }

class Network {
 public:
  using Done = std::function<void(Result<Reply>)>;

  Network(Clock& clock, Listener& listener, NetworkFaults* faults = nullptr)
      : clock_(clock), listener_(listener), faults_(faults) {}

  void set_path(const FacilityId& facility, const NetworkPath& path) { paths_[facility] = path; }
  [[nodiscard]] const NetworkPath& path(const FacilityId& facility) { return paths_[facility]; }
  void set_piece_bytes(std::uint64_t bytes) { piece_bytes_ = bytes; }
  void set_timeout(double seconds) { timeout_s_ = seconds; }

  // `done` is called once with the reply or the reason why there is none, unless `life` is over by
  // then. Replies from status 400 on are errors.
  void call(const FacilityId& facility, Request request, const Life& life, Done done);

 private:
  struct Call;
  void carry(const std::shared_ptr<Call>& call, const NetworkFate& fate, double delay_s);
  void carry_back(const std::shared_ptr<Call>& call, std::optional<Reply> reply);
  void settle(const std::shared_ptr<Call>& call, Result<Reply> result);

  Clock& clock_;
  Listener& listener_;
  NetworkFaults* faults_;
  std::map<FacilityId, NetworkPath> paths_;
  std::uint64_t piece_bytes_ = 0;
  double timeout_s_ = 20;
};

}  // namespace fedqueue::simulation
