// A client's side of transfers: one update to the server by the product's UploadMachine, one model
// from it with resumption, as fedclient/link does them.
//
// Not thread-safe. An object is used for one transfer; its end ends the transfer.
#pragma once

#include <functional>
#include <string>

#include "core/base/prng.h"
#include "core/protocol/upload.h"
#include "simulation/world/network.h"

namespace fedqueue::simulation {

// An update that is to be sent, or was left by a job.
struct OwnUpdate {
  UpdateId id;
  SharedBytes content;
  UpdateMetadata metadata;
  std::string token;
  std::string digest;  // that is announced; empty: the content's own
};

class Sending {
 public:
  using Done = std::function<void(Result<UpdateAnswer>)>;

  // What is given outlives the sending.
  Sending(Clock& clock, Network& network, Prng& random, FacilityId facility)
      : clock_(clock), network_(network), random_(random), facility_(std::move(facility)) {}

  // `done` is called once, last of all.
  void start(OwnUpdate update, const RetryPolicy& retry, Done done);
  // Asks for the answer alone; nothing if the server has none yet.
  void ask(const UpdateId& id, std::function<void(Result<std::optional<UpdateAnswer>>)> done);

 private:
  void proceed();
  void probe();
  void put();
  void fetch_answer();
  void failed(const Error& error);

  Clock& clock_;
  Network& network_;
  Prng& random_;
  FacilityId facility_;
  OwnUpdate update_;
  std::optional<UploadMachine> machine_;
  Done done_;
  Instant since_{};
  Life life_ = new_life();
};

class Fetching {
 public:
  using Done = std::function<void(Result<SharedBytes>)>;

  Fetching(Clock& clock, Network& network, Prng& random, FacilityId facility)
      : clock_(clock), network_(network), random_(random), facility_(std::move(facility)) {}

  // The model whole and with the right checksum, or not at all.
  void start(Version version, const RetryPolicy& retry, Done done);

 private:
  void proceed();
  void take(const Reply& reply);
  void failed(const Error& error);

  Clock& clock_;
  Network& network_;
  Prng& random_;
  FacilityId facility_;
  Version version_ = 0;
  RetryPolicy retry_;
  Done done_;
  Bytes part_;
  std::string etag_;
  int failures_ = 0;
  Instant since_{};
  Life life_ = new_life();
};

}  // namespace fedqueue::simulation
