// One HTTP exchange at a time over one libcurl handle, whose connection is kept alive.
//
// Thread safety: one exchange at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "fedclient/link/link.h"

namespace fedqueue {

// The bytes of an upload.
class BodySource {
 public:
  virtual ~BodySource() = default;
  // Fills at most bytes.size(); 0 at the end, a failure ends the exchange.
  virtual Result<std::size_t> read(std::span<std::byte> bytes) = 0;
};

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  [[nodiscard]] bool ok() const { return status >= 200 && status < 300; }
  // Empty if there is none.
  [[nodiscard]] std::string header(const std::string& name) const;
};

struct Exchange {
  std::string method = "GET";
  std::string path;                  // below /v1/runs/RUN/; empty for that itself
  std::vector<std::string> headers;  // "Name: value"
  std::string body;                  // of a small request
  BodySource* source = nullptr;      // instead of body
  std::uint64_t source_bytes = 0;
  // Takes the body of a 2xx answer as it comes, given the head; false cuts the exchange.
  std::function<bool(const Answer& head, std::span<const std::byte>)> sink;
  bool transfer = false;  // bounded by the stall time-out instead of the answer time-out
  bool endless = false;   // not bounded at all
};

class Transport {
 public:
  static Result<std::unique_ptr<Transport>> create(const LinkConfig& config);
  ~Transport();

  // Any status is an answer; an error means that there was none.
  Result<Answer> perform(const Exchange& exchange);

  // Sleeps; false if it was interrupted.
  bool pause(Duration duration);

  [[nodiscard]] const LinkConfig& config() const;
  [[nodiscard]] const std::string& proxy_used() const;

 private:
  struct State;
  explicit Transport(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fedqueue
