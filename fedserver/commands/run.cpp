// fedserver run: the server of one run, from its journal to its listener.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <set>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/kit/identity.h"
#include "core/tensor/control.h"
#include "fedserver/certificates/commands.h"
#include "fedserver/commands/commands.h"
#include "fedserver/http/server.h"
#include "fedserver/journal/sqlite_journal.h"
#include "fedserver/reducer/worker.h"
#include "fedserver/telemetry/recorder.h"

namespace fedqueue {
namespace {

// Woken by any thread, by signals and by time.
class Waiter {
 public:
  static Result<Waiter> create() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
    // Blocked in this thread and all it starts from here on: they are read from the descriptor.
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    Waiter waiter;
    waiter.event_ = FileDescriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    waiter.signal_ = FileDescriptor(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!waiter.event_ || !waiter.signal_) return storage_error("create a descriptor", errno);
    return waiter;
  }

  [[nodiscard]] std::function<void()> waker() const {
    return [fd = event_.get()] {
      const std::uint64_t one = 1;
      (void)!::write(fd, &one, sizeof one);
    };
  }

  // The signal that arrived, or 0.
  int wait(Duration longest) {
    pollfd polled[2] = {{event_.get(), POLLIN, 0}, {signal_.get(), POLLIN, 0}};
    const auto milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(longest).count() + 1;
    ::poll(polled, 2, static_cast<int>(milliseconds));
    std::uint64_t count = 0;
    (void)!::read(event_.get(), &count, sizeof count);
    signalfd_siginfo info{};
    if (::read(signal_.get(), &info, sizeof info) != sizeof info) return 0;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  Waiter() = default;
  FileDescriptor event_;
  FileDescriptor signal_;
};

Result<ModelRecord> describe_model(const std::filesystem::path& path, const std::string& file) {
  Result<FileDescriptor> fd = open_file(path, O_RDONLY);
  if (!fd) return within("read the initial model", fd.error());
  Sha256 digest;
  ModelRecord model{0, file, "", 0};
  std::vector<std::byte> buffer(4u << 20);
  for (;;) {
    const ssize_t count = ::read(fd->get(), buffer.data(), buffer.size());
    if (count < 0) return storage_error("read '" + path.string() + "'", errno);
    if (count == 0) break;
    digest.update(std::span<const std::byte>(buffer.data(), static_cast<std::size_t>(count)));
    model.bytes += static_cast<std::uint64_t>(count);
  }
  model.sha256 = digest.hex();
  return model;
}

// Enrols facilities of the registry with the engine, before any of their requests is looked at.
class Enrolment {
 public:
  Enrolment(const Registry& registry, std::function<bool(Event)> post)
      : registry_(registry), post_(std::move(post)) {}

  Status refresh() {
    const Result<std::vector<EnrolledFacility>> facilities = registry_.facilities();
    if (!facilities) return facilities.error();
    const std::lock_guard lock(mutex_);
    for (const EnrolledFacility& facility : *facilities) {
      const auto known = samples_.find(facility.name);
      if (known != samples_.end() && known->second == facility.samples) continue;
      if (post_(FacilityEnrolled{facility.name, facility.samples})) {
        samples_[facility.name] = facility.samples;
      }
    }
    return {};
  }

  Status ensure(const std::string& name) {
    {
      const std::lock_guard lock(mutex_);
      if (samples_.contains(FacilityId(name))) return {};
    }
    return refresh();
  }

 private:
  const Registry& registry_;
  std::function<bool(Event)> post_;
  std::mutex mutex_;
  std::map<FacilityId, std::int64_t> samples_;
};

// The parts of a running server, in the order in which they depend on each other.
struct Server {
  RunDirectory directory;
  Log log;
  std::unique_ptr<SqliteJournal> journal;
  std::unique_ptr<BlobStore> blobs;
  std::optional<Registry> registry;
  Metrics metrics;
  http::ModelIndex models;
  http::FactFeed feed;
  std::unique_ptr<Recorder> recorder;
  // The driver needs the worker and the worker the driver: completions find it here.
  Driver* driver_for_worker = nullptr;
  std::unique_ptr<Driver> driver;
  std::unique_ptr<Worker> worker;  // ends before the driver does
  std::unique_ptr<Enrolment> enrolment;
  std::unique_ptr<http::HttpServer> http;
};

Status open_stores(Server& server, const Settings& settings) {
  Result<std::unique_ptr<SqliteJournal>> journal = SqliteJournal::open(server.directory.journal());
  if (!journal) return journal.error();
  server.journal = std::move(*journal);
  BlobLimits limits;
  limits.quota_bytes = static_cast<std::uint64_t>(settings.integer("quota_mb")) << 20;
  Result<std::unique_ptr<BlobStore>> blobs = BlobStore::open(server.directory.server(), limits);
  if (!blobs) return blobs.error();
  server.blobs = std::move(*blobs);
  Result<Registry> registry = Registry::open(CertificateFiles{server.directory.root}.registry());
  if (!registry) return registry.error();
  server.registry.emplace(std::move(*registry));
  Result<std::unique_ptr<Recorder>> recorder =
      Recorder::create(server.directory.metrics(), server.log, server.metrics);
  if (!recorder) return recorder.error();
  server.recorder = std::move(*recorder);
  return {};
}

Status start_driver(Server& server, const Settings& settings, std::function<void()> wake) {
  Result<EngineConfig> config = engine_config(settings);
  if (!config) return config.error();
  const std::string initial_file = BlobStore::model_file(0);
  const std::filesystem::path initial = server.blobs->model_path(initial_file);
  Result<tensor::Reader> structure = tensor::Reader::open(initial);
  if (!structure) return within("read the initial model", structure.error());
  if (tensor::has_controls(structure->manifest()) != keeps_control_variates(*config)) {
    return Error{
        Code::usage,
        "serve the run: its settings say control_variates = " +
            std::string(keeps_control_variates(*config) ? "true" : "false") +
            ", but the models were made for the opposite",
        "Set control_variates as it was at fedserver init; it cannot change within a run."};
  }
  ModelRecord record;
  const Result<std::vector<JournalRow>> first = server.journal->rows(0, 1);
  if (!first) return first.error();
  if (first->empty()) {
    Result<ModelRecord> described = describe_model(initial, initial_file);
    if (!described) return described.error();
    record = std::move(*described);
  }
  WorkerOptions options;
  options.reduce_threads = static_cast<int>(settings.integer("reduce_threads"));
  options.norm_max = settings.real("update_norm_max");
  server.worker = std::make_unique<Worker>(
      *server.blobs, options,
      [&server](Event event) { server.driver_for_worker->complete(std::move(event)); },
      server.log.for_component("worker"));
  server.worker->set_model(structure->manifest());
  Result<std::unique_ptr<Driver>> driver =
      Driver::create(std::move(*config), std::move(record), *server.journal, *server.worker,
                     {&server.models, &server.feed, server.recorder.get()}, std::move(wake));
  if (!driver) return driver.error();
  server.driver = std::move(*driver);
  server.driver_for_worker = server.driver.get();
  return {};
}

// Removes files that the journal does not know, left by a crash.
Status sweep(Server& server) {
  const FilesInUse files = files_in_use(server.driver->engine().state());
  const Result<SweepReport> report = server.blobs->sweep(files.updates, files.models);
  if (!report) return report.error();
  if (report->updates_removed + report->models_removed + report->parts_removed > 0) {
    server.log.info("swept files that nothing refers to", {{"updates", report->updates_removed},
                                                           {"models", report->models_removed},
                                                           {"parts", report->parts_removed}});
  }
  return {};
}

Status start_http(Server& server, const Settings& settings) {
  const CertificateFiles files{server.directory.root};
  http::HttpConfig config;
  config.run = settings.text("run");
  config.address = settings.text("listen");
  config.port = static_cast<std::uint16_t>(settings.integer("port"));
  config.tls = {files.authority() / "ca.crt", files.server_certificate(), files.server_key()};
  if (settings.integer("status_port") > 0) {
    config.status_port = static_cast<std::uint16_t>(settings.integer("status_port"));
  }
  server.enrolment = std::make_unique<Enrolment>(
      *server.registry, [&server](Event event) { return server.driver->post(std::move(event)); });
  if (Status enrolled = server.enrolment->refresh(); !enrolled) return enrolled;
  http::HttpPorts ports;
  ports.post = [&server](Event event, Reply reply) {
    return server.driver->post(std::move(event), std::move(reply));
  };
  ports.rows = [&server](std::int64_t after, std::size_t limit) {
    return server.journal->rows(after, limit);
  };
  ports.screen = [&server](const std::filesystem::path& path, const UpdateMetadata&,
                           Worker::Screened done) { server.worker->screen(path, std::move(done)); };
  ports.admit = [&server, registered = http::admission_by(*server.registry)](
                    const http::Peer& peer) -> Status {
    if (Status standing = registered(peer); !standing) return standing;
    if (peer.identity.kind != IdentityKind::facility) return {};
    return server.enrolment->ensure(peer.name());
  };
  ports.blobs = server.blobs.get();
  ports.models = &server.models;
  ports.feed = &server.feed;
  ports.metrics = &server.metrics;
  ports.log = server.log;
  Result<std::unique_ptr<http::HttpServer>> http =
      http::HttpServer::start(std::move(config), std::move(ports));
  if (!http) return http.error();
  server.http = std::move(*http);
  return write_file_atomic(server.directory.endpoint(),
                           "https://127.0.0.1:" + std::to_string(server.http->port()) + "\n");
}

// Until a signal, or until a finished run has been served long enough.
void serve(Server& server, Waiter& waiter, Duration linger) {
  const Instant resumed_at = server.driver->resumed_at();
  const auto started = std::chrono::steady_clock::now();
  const auto uptime = [&] {
    return resumed_at +
           std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - started);
  };
  server.driver->resume(uptime());
  std::optional<Instant> finished_at;
  Instant enrolled_at = uptime();
  for (;;) {
    const Instant now = uptime();
    server.driver->turn(now);
    if (!server.driver->engine().state().finished.empty() && !finished_at) finished_at = now;
    if (finished_at && now - *finished_at > linger) {
      server.log.info("the finished run has been served long enough", {});
      return;
    }
    if (now - enrolled_at > std::chrono::seconds(2)) {
      enrolled_at = now;
      if (Status enrolled = server.enrolment->refresh(); !enrolled)
        server.log.error(enrolled.error());
    }
    Duration longest = std::chrono::seconds(2);
    if (server.driver->has_work()) longest = {};
    if (const auto wakeup = server.driver->next_wakeup()) {
      longest = std::clamp(*wakeup - now, Duration{}, longest);
    }
    if (const int signal = waiter.wait(longest); signal != 0) {
      server.log.info("ending on a signal; a restart continues the run", {{"signal", signal}});
      return;
    }
  }
}

Result<int> run_server(const Settings& settings) {
  const RunDirectory directory = run_directory(settings);
  std::error_code failed;
  if (!std::filesystem::exists(directory.config(), failed)) {
    return Error{Code::not_found, "'" + directory.root.string() + "' holds no run",
                 "Make one with fedserver init."};
  }
  for (const auto& folder : {directory.logs(), directory.metrics()}) {
    std::filesystem::create_directories(folder, failed);
    if (failed) return storage_error("create '" + folder.string() + "'", failed.value());
  }
  const Result<LockFile> lock =
      LockFile::acquire(directory.lock(), "process " + std::to_string(::getpid()));
  if (!lock) {
    if (lock.error().code != Code::already_running) return lock.error();
    std::cout << "fedserver " << lock.error().message << "\n";
    return 0;
  }
  Result<Waiter> waiter = Waiter::create();
  if (!waiter) return waiter.error();
  const Result<Log> log = Log::create({.json_file = directory.logs() / "server.jsonl"}, "server",
                                      {{"run", settings.text("run")}});
  if (!log) return log.error();
  Server server;
  server.directory = directory;
  server.log = *log;
  for (const std::string& note : settings.notes()) server.log.warning(note);
  if (Status opened = open_stores(server, settings); !opened) return opened.error();
  if (Status started = start_driver(server, settings, waiter->waker()); !started) {
    return started.error();
  }
  if (Status swept = sweep(server); !swept) return swept.error();
  if (Status started = start_http(server, settings); !started) return started.error();
  server.log.info("serving", {{"port", server.http->port()},
                              {"version", server.driver->engine().state().latest},
                              {"policy", server.driver->engine().policy().name()}});
  serve(server, *waiter, settings.duration("linger_s"));
  std::filesystem::remove(directory.endpoint(), failed);
  server.http->stop();
  return 0;
}

}  // namespace

Command run_command() {
  Command command;
  command.verb = "run";
  command.summary = "Serve the run; started again at any time, it goes on where it was";
  command.examples = {"fedserver run runs/mnist",
                      "*/10 * * * * fedserver run runs/mnist   (from cron; a second start says "
                      "'already running')"};
  command.options = run_options();
  command.arguments = {directory_argument()};
  command.user_file = settings_file;
  command.run = run_server;
  return command;
}

}  // namespace fedqueue
