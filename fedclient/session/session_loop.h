// Performs a Session's steps with a real (or played) server and a real trainer, on rank 0 of a job.
//
// The calling thread fetches, trains and uploads; a second thread sends the heartbeats, so that a
// long upload or a long step does not cost the lease. Updates are written as snapshots
// (snapshot.h) before they are sent and removed after the server's answer.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "core/base/log.h"
#include "core/base/result.h"
#include "fedclient/session/server_port.h"
#include "fedclient/session/session.h"

namespace fedqueue {

// Shared between the loop and the trainer while a segment runs. Thread-safe.
class TrainControl {
 public:
  // Finish the step at hand and return what is done.
  std::atomic<bool> stop = false;
  // Steps done in this job so far, for the heartbeats.
  std::atomic<std::int64_t> steps_done = 0;
  // Steady clock: training ends with the step in which this is reached; max() if never.
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();
};

class LocalTrainer {
 public:
  virtual ~LocalTrainer() = default;
  // Takes over a model, on all ranks. `job` holds the run's training settings.
  virtual Status load(const std::filesystem::path& model, Version version,
                      const JobAnswer& job) = 0;
  // Trains one segment from the loaded model and writes the delta to `update`. Fewer steps than
  // asked for are fine; none at all means that there is no file.
  virtual Result<UpdateMetadata> train(const Segment& segment, TrainControl& control,
                                       const std::filesystem::path& update) = 0;
  // Where an update's control variates belong once the server took it; empty: it has none.
  [[nodiscard]] virtual std::filesystem::path controls() const { return {}; }
};

struct SessionLoopSettings {
  std::filesystem::path job_directory;  // snapshots, and the downloaded model
  // Polled often: a non-empty text is the reason to finish (a signal came).
  std::function<std::string()> interrupted = [] { return std::string(); };
};

// Until the session is over; the result is the exit code. `heartbeats` must be another object than
// `server`. The session's clock is the steady clock: see steady_instant().
int run_session(Session& session, SessionServer& server, SessionServer& heartbeats,
                LocalTrainer& trainer, const SessionLoopSettings& settings, const Log& log);

// Now, as the session counts: the steady clock in microseconds.
[[nodiscard]] Instant steady_instant();

}  // namespace fedqueue
