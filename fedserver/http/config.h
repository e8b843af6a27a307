// What the HTTP server is told, and whom it talks to.
//
// Thread safety: the ports are called from several threads at once.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/base/result.h"
#include "fedserver/blobs/blobs.h"
#include "fedserver/driver/driver.h"
#include "fedserver/http/fact_feed.h"
#include "fedserver/http/identity.h"
#include "fedserver/http/model_index.h"
#include "fedserver/http/tls.h"
#include "fedserver/telemetry/metrics.h"

namespace fedqueue::http {

struct HttpLimits {
  std::size_t connections_max = 4096;
  std::size_t requests_max = 1024;  // being answered at one time
  std::size_t header_bytes_max = 16u << 10;
  std::chrono::milliseconds handshake_time = std::chrono::seconds(10);
  std::chrono::milliseconds request_time = std::chrono::seconds(10);  // head and JSON body
  std::chrono::milliseconds idle_time = std::chrono::minutes(5);      // between two requests
  std::chrono::milliseconds answer_time = std::chrono::minutes(15);   // of the engine
  // A transfer must move 256 KiB in this time, or it is cut.
  std::chrono::milliseconds progress_time = std::chrono::seconds(60);
  std::chrono::milliseconds event_heartbeat = std::chrono::seconds(15);
};

struct HttpConfig {
  std::string run;
  std::string address = "::";  // with IPv4, too
  std::uint16_t port = 0;      // 0: any free one
  TlsFiles tls;
  // Health, metrics and the status page without TLS, for this machine alone.
  std::optional<std::uint16_t> status_port;
  std::string status_address = "127.0.0.1";  // or ::1
  unsigned threads = 2;                      // requests
  unsigned transfer_threads = 4;             // uploads and downloads
  unsigned file_threads = 4;                 // waiting for the disk
  HttpLimits limits;
};

// Ends with the norm of the update, or with what is wrong with it. May take long; must not block
// the caller.
using ScreenPort = std::function<void(const std::filesystem::path&, const UpdateMetadata&,
                                      std::function<void(Result<double>)>)>;

struct HttpPorts {
  std::function<bool(Event, Reply)> post;  // Driver::post
  std::function<Result<std::vector<JournalRow>>(std::int64_t after, std::size_t limit)> rows;
  ScreenPort screen;
  AdmissionPort admit;
  // Not owned; they outlive the server.
  BlobStore* blobs = nullptr;
  ModelIndex* models = nullptr;
  FactFeed* feed = nullptr;
  Metrics* metrics = nullptr;
  Log log;
};

}  // namespace fedqueue::http
