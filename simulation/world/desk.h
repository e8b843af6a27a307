// The simulated server's front desk: turns requests into events for the driver and uploads into
// files, as fedserver/http does, without sockets. The order of an upload's steps is the product's
// own (fedserver/desk).
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "fedserver/blobs/upload.h"
#include "fedserver/desk/upload_steps.h"
#include "simulation/world/network.h"
#include "simulation/world/process.h"

namespace fedqueue::simulation {

class Desk {
 public:
  explicit Desk(ServerProcess& process) : process_(process) {}

  void receive(const FacilityId& peer, const std::shared_ptr<const Request>& request,
               const BodyFlow& flow, Listener::Respond respond);

  // Uploads that are being received or decided.
  [[nodiscard]] std::size_t uploads() const { return uploads_.size(); }

 private:
  struct Incoming {
    FacilityId peer;
    std::shared_ptr<const Request> request;
    BodyFlow flow;
    Listener::Respond respond;
    UploadSteps steps;
    std::unique_ptr<Upload> upload;
    std::filesystem::path path;
    std::uint64_t received = 0;  // of the body
    bool has_place = false;
    bool cut = false;        // by a newer request for the same update
    bool receiving = false;  // may be cut
  };
  struct Place {
    std::uint64_t holder = 0;
    std::deque<std::uint64_t> waiting;
  };

  void reply(const FacilityId& peer, const Request& request, const Listener::Respond& respond,
             Reply reply);
  void ask(const FacilityId& peer, const std::shared_ptr<const Request>& request, Event event,
           Listener::Respond respond);
  void probe(const FacilityId& peer, const std::shared_ptr<const Request>& request,
             Listener::Respond respond);
  void send_model(const FacilityId& peer, const Request& request, const Listener::Respond& respond);
  void put(const FacilityId& peer, const std::shared_ptr<const Request>& request,
           const BodyFlow& flow, Listener::Respond respond);

  // Goes on with an upload until something must be waited for.
  void proceed(std::uint64_t number);
  void ask_about(std::uint64_t number, Incoming& incoming);
  void take_place(std::uint64_t number, Incoming& incoming, bool waited);
  void receive_piece(std::uint64_t number);
  void settle(Incoming& incoming);
  void screen(std::uint64_t number);
  void finish(std::uint64_t number);
  Incoming* find(std::uint64_t number);

  ServerProcess& process_;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, Incoming> uploads_;
  std::map<UpdateId, Place> places_;
};

}  // namespace fedqueue::simulation
