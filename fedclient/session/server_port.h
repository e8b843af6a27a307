// What a trainer job asks of the server. The link implements it over HTTPS; the simulator and the
// tests play it.
//
// Thread safety: one call at a time per object; heartbeats use an object of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/result.h"
#include "core/protocol/messages.h"
#include "core/protocol/upload.h"

namespace fedqueue {

struct DownloadedModel {
  Version version = 0;
  std::string sha256;
  std::uint64_t bytes = 0;
};

class SessionServer {
 public:
  virtual ~SessionServer() = default;

  virtual Result<JobAnswer> enrol(const JobRegistration& registration) = 0;
  virtual Result<HeartbeatAnswer> heartbeat(const AttemptId& attempt,
                                            const Heartbeat& heartbeat) = 0;
  virtual Status end_job(const AttemptId& attempt, const JobEnd& end) = 0;
  // The model is at `path` whole and checked, or not at all. No version: the latest.
  virtual Result<DownloadedModel> download_model(std::optional<Version> version,
                                                 const std::filesystem::path& path) = 0;
  // Resumes what an earlier try left at the server; returns when the update is decided.
  virtual Result<UpdateAnswer> upload_update(const UpdateId& id, const std::filesystem::path& path,
                                             const UpdateMetadata& metadata,
                                             const std::string& token,
                                             const RetryPolicy& retry) = 0;
  // The decision about an update that was sent, and what comes next by now. Code::not_found when
  // the server does not know it.
  virtual Result<UpdateAnswer> ask_next(const UpdateId& id) = 0;
};

}  // namespace fedqueue
