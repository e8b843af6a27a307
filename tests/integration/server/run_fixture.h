// A real fedserver process with its run directory, and facilities that are played in this process
// over the real link.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor/manifest.h"
#include "fedclient/link/link.h"

namespace fedqueue::test {

struct Finished {
  int exit_code = 0;
  std::string output;  // standard output and error together
};

// Runs a program to its end. Killed after `seconds_max`, which is then a failure of the test.
Finished run_program_to_end(const std::vector<std::string>& arguments, double seconds_max = 60);

class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The path of a program that the build made.
[[nodiscard]] std::string program_path(const std::string& name);

// A small model with parameters, a float buffer and a counter.
[[nodiscard]] tensor::Manifest small_structure(std::int64_t width = 16);
void write_model(const std::filesystem::path& path, const tensor::Manifest& structure,
                 std::uint64_t seed);

class ServerRun {
 public:
  // `options` are given to `fedserver init`.
  explicit ServerRun(std::vector<std::string> options,
                     std::vector<std::string> facilities = {"alpha", "bravo"},
                     std::int64_t model_width = 16);
  ~ServerRun();

  void start();         // returns when the server answers
  void kill_hard();     // SIGKILL, returns when the process is gone
  int stop_politely();  // SIGTERM, returns the exit code
  [[nodiscard]] bool alive() const { return pid_ > 0; }
  [[nodiscard]] pid_t pid() const { return pid_; }

  // A command of fedserver on this run directory: verb words first.
  Finished server(std::vector<std::string> verb, std::vector<std::string> rest = {}) const;

  // A new connection of a facility; retries nothing.
  [[nodiscard]] std::unique_ptr<Link> link(const std::string& facility) const;
  [[nodiscard]] LinkConfig link_config(const std::string& facility) const;

  [[nodiscard]] std::filesystem::path directory() const { return temporary_.path() / "run"; }
  [[nodiscard]] std::filesystem::path scratch() const { return temporary_.path(); }
  [[nodiscard]] std::string url() const;

 private:
  TemporaryDirectory temporary_;
  pid_t pid_ = -1;
};

// A facility whose update is a function of its base's bytes, the facility and the segment: the same
// history makes the same model, whatever happens on the way.
class PlayedFacility {
 public:
  PlayedFacility(ServerRun& run, std::string name);

  // One protocol step (plan, register, download, upload, leave). False once the run is finished.
  // A step that fails because the server is away is done again by the next call.
  bool step();
  [[nodiscard]] const std::string& name() const { return name_; }
  // Which step comes next, for messages.
  [[nodiscard]] const char* next_step() const;
  void set_queue_wait(double wait_s) { queue_wait_s_ = wait_s; }

 private:
  enum class Stage { plan, enrol, download, upload, leave };
  Status plan();
  Status enrol();
  Status download();
  Status upload();
  Status leave();
  void finish_run() { finished_ = true; }

  ServerRun& run_;
  std::string name_;
  std::unique_ptr<Link> link_;
  Stage stage_ = Stage::plan;
  bool finished_ = false;
  int job_ = 0;
  double queue_wait_s_ = 1;
  std::string key_;
  AttemptId attempt_;
  JobAnswer answer_;
  std::filesystem::path model_;
};

// Writes the delta that PlayedFacility sends for this base.
UpdateMetadata write_update(const std::filesystem::path& base, const std::filesystem::path& update,
                            const std::string& facility, const Segment& segment);

[[nodiscard]] std::string file_sha256(const std::filesystem::path& path);

}  // namespace fedqueue::test
