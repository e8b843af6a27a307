// The server's side of one request that brings bytes of an update, as a pure state machine: it says
// what to do next and is told what came of it. The HTTP server performs the steps; the simulator
// plays them.
//
//   ask ─▶ take ─▶ begin ─▶ receive ─▶ settle ─▶ screen ─▶ decide ─▶ reply
//           └ waited: ask again            └ cut, failed or not whole: reply
//
// Promises: nothing is taken before the engine has agreed, nothing is answered before it is
// durable, and only what the screening has seen is decided; bytes that were not decided are kept
// when the same request may succeed later, and removed otherwise.
//
// Not thread-safe. Source: docs/protocol.md, "Uploads".
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "fedserver/engine/events.h"

namespace fedqueue {

// Whether this facility may send or see this update: it must be its own. Code::usage for a text
// that is no update's id, Code::identity for another facility's.
[[nodiscard]] Status check_owner(const FacilityId& facility, const std::string& update);

// What the request's headers say.
struct UploadOffer {
  UpdateId id;
  UpdateMetadata metadata;
  std::string token;
  std::string digest;       // XXH3-128 of the whole update
  std::uint64_t first = 0;  // the request's first byte within the update,
  std::uint64_t count = 0;  // how many it brings,
  std::uint64_t total = 0;  // and how many the update has
};

class UploadSteps {
 public:
  enum class Step {
    ask,        // the engine, with question(); then answered()
    take,       // the update's place, one request at a time; then taken()
    begin,      // BlobStore::begin_upload(); then begun()
    receive,    // the body; then received()
    settle,     // Upload::finish() if whole(), otherwise suspend(); then settled()
    screen,     // the file; then screened()
    decide,     // the engine, with question(); then answered()
    put_aside,  // BlobStore::reopen_update() if may_come_again(), otherwise remove_update();
                // then put_aside_done()
    reply,      // ending(); this is the last
  };

  struct Ending {
    enum class Kind {
      answer,  // the engine's; none: the server is ending
      refuse,  // error(), with the durable bytes if with_offset
      more,    // 202: these bytes are durable, others are missing
      cut,     // the client is gone: nothing
    };
    Kind kind = Kind::cut;
    std::optional<Answer> answer;
    int status = 200;  // of an answer that is no error
    std::optional<Error> error;
    bool with_offset = false;
    std::uint64_t offset = 0;  // more: of the next byte
  };

  UploadSteps(FacilityId facility, UploadOffer offer);

  [[nodiscard]] Step step() const { return step_; }
  [[nodiscard]] const UploadOffer& offer() const { return offer_; }
  [[nodiscard]] const Ending& ending() const { return ending_; }
  [[nodiscard]] Event question() const;
  [[nodiscard]] bool whole() const { return whole_; }
  [[nodiscard]] bool may_come_again() const { return may_come_again_; }

  // Nothing: the server is ending.
  void answered(const std::optional<Answer>& answer);
  // `waited`: another request had the place, and may have brought the update to its decision.
  void taken(bool waited);
  void not_taken();
  void begun(const Status& begun);
  // `offset` is the upload's next byte; `cut`: the body ended before its announced length.
  void received(std::uint64_t offset, bool cut, const std::optional<Error>& failed);
  void settled(const Status& settled);
  // The update's norm, or what is wrong with it.
  void screened(const Result<double>& screened);
  void put_aside_done();

 private:
  void refuse(const Error& error, bool with_offset);

  FacilityId facility_;
  UploadOffer offer_;
  Step step_ = Step::ask;
  Ending ending_;
  bool placed_ = false;
  bool whole_ = false;
  bool cut_ = false;
  std::optional<Error> failed_;
  double norm_ = 0;
  std::optional<Error> unsound_;  // what the screening found
  bool may_come_again_ = false;
};

}  // namespace fedqueue
