// The facility's way to the server: HTTP/1.1 over mutually authenticated TLS, dialled from here.
//
//   POST plans | jobs | evaluations …   small JSON calls over one connection that is kept alive
//   GET models/V                        streamed to a file, resumed after cuts, sha256 checked
//   HEAD/PUT/GET updates/ID             streamed from a file, resumed at the server's offset
//
// Promises: only the kit's CA is trusted, never the system's; the peer's name is checked; every
// failure is one sentence with its code (faults.h) and no secret in it; TLS failures are never
// tried again. Proxies come from https_proxy, all_proxy and no_proxy (both cases, SOCKS5 too)
// unless the configuration names one, and are for this link alone.
//
// Single calls are not repeated here: the session and the agent decide about that. Transfers of
// files are, within the given RetryPolicy, because only here is it known how far they came.
//
// Thread safety: one call at a time per object. Heartbeats use a Link of their own.
// Source: docs/protocol.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/base/log.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/protocol/messages.h"
#include "core/protocol/upload.h"
#include "fedclient/session/server_port.h"

namespace fedqueue {

struct LinkConfig {
  std::string server_url;  // https://host:port
  RunId run;
  // The kit: the CA that signed the server, and this facility's certificate and key (PEM).
  std::filesystem::path ca;
  std::filesystem::path certificate;
  std::filesystem::path key;
  std::string proxy;     // empty: from the environment; "direct": none; else the proxy's URL
  std::string no_proxy;  // empty: from the environment
  Duration connect_timeout = std::chrono::seconds(15);
  Duration answer_timeout = std::chrono::seconds(60);  // of one small call
  Duration stall_timeout = std::chrono::seconds(120);  // of a transfer: not a byte for so long
  RetryPolicy retry;                                   // of downloads
  // Sleeps between tries; false ends the waiting. The default sleeps and asks `interrupted`.
  std::function<bool(Duration)> pause;
  // Asked often during transfers; true cuts them short.
  std::function<bool()> interrupted = [] { return false; };
  Log log;
};

struct ServerEvent {
  std::int64_t id = 0;
  std::string kind;
  std::string data;  // JSON
};

class Link : public SessionServer {
 public:
  // Checks the URL and the kit's files; connects with the first call.
  static Result<std::unique_ptr<Link>> create(LinkConfig config);
  ~Link() override;

  Result<PlanAnswer> plan(const PlanRequest& request);
  Result<JobAnswer> enrol(const JobRegistration& registration) override;
  Result<HeartbeatAnswer> heartbeat(const AttemptId& attempt, const Heartbeat& heartbeat) override;
  Status end_job(const AttemptId& attempt, const JobEnd& end) override;
  Status evaluated(const Evaluation& evaluation);
  // Finishes the run; an operator's right.
  Status stop_run(const std::string& reason);

  // The server's own JSON document about the run.
  Result<std::string> status_json();
  Result<Version> latest_version();

  Result<DownloadedModel> download_model(std::optional<Version> version,
                                         const std::filesystem::path& path) override;

  // Nothing if the server does not know the update, or has only a part of it.
  Result<std::optional<UpdateAnswer>> update_answer(const UpdateId& id);
  Result<UpdateAnswer> upload_update(const UpdateId& id, const std::filesystem::path& path,
                                     const UpdateMetadata& metadata, const std::string& token,
                                     const RetryPolicy& retry) override;

  Result<UpdateAnswer> ask_next(const UpdateId& id) override;

  // Calls back for every event after `last_id`, and comes back after lost connections. Returns
  // when the callback says false, or with the error that ended it.
  Status events(std::int64_t last_id, const std::function<bool(const ServerEvent&)>& callback);

  // The proxy that the last connection went through, without credentials; empty for none.
  [[nodiscard]] const std::string& proxy_used() const;

 private:
  struct State;
  explicit Link(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fedqueue
